"""Server-sent events of a job: first those after the caller's last event, then new ones until the job's end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import orjson
from starlette.requests import Request

from jobs.errors import JobNotFound, MatmulError, StoreUnavailable, Unauthenticated
from jobs.models import JobEvent
from jobs.states import TERMINAL
from service.changes import Watch
from service.context import Context, context_of
from service.http.admission import Admission

PING_S = 8.0
RETRY_MS = 1000  # delay after which a disconnected client reconnects
FINAL = frozenset(state.value for state in TERMINAL)


async def events_after(context: Context, job_id: str, event_id: str) -> Sequence[JobEvent]:
    """The job's events after that one. Readers of one job mostly ask for the same, so they share the answer. Raises
    StoreUnavailable.
    """
    return await context.events.ask(
        (job_id, event_id), lambda: context.call(context.ledger.events, job_id, after=event_id)
    )


async def stream(
    request: Request, watch: Watch, job_id: str, first: Sequence[JobEvent], last_id: str
) -> AsyncIterator[bytes]:
    """Streams events. `first` are the events after `last_id`. Ends after the job's final event, when the job is gone or
    has ended before `last_id`, when the service stops, or within seconds after the request's key is revoked or expires. After PING_S without an
    event a comment is sent, because intermediaries close silent connections.
    """
    context, admission = context_of(request), Admission(request)
    now = asyncio.get_running_loop().time
    yield b"retry: %d\n\n" % RETRY_MS
    events, ping_at = first, now() + PING_S
    while True:
        for event in events:
            last_id, ping_at = event.id, now() + PING_S
            yield _lines(event)
        if events and events[-1].event in FINAL:
            return
        await watch.change(ping_at - now())  # it may return earlier, when the watch polls
        if context.hub.closing or not await _is_admitted(admission):
            return
        is_over = False
        if now() >= ping_at:
            is_over = await _is_over(context, job_id)
            ping_at = now() + PING_S
            yield b": ping\n\n"
        try:
            events = await events_after(context, job_id, last_id)
        except StoreUnavailable:
            events, is_over = (), False  # wait for the outage to end: the events are kept
        if is_over and not events:
            return


async def _is_admitted(admission: Admission) -> bool:
    try:
        await admission.check()
    except Unauthenticated:
        return False
    return True


async def _is_over(context: Context, job_id: str) -> bool:
    """Whether there will be no more events: the job has ended, was deleted, or was lost in a failover."""
    try:
        job = await context.call(context.ledger.get, job_id)
    except JobNotFound:
        return True
    except MatmulError:
        return False
    return job.record.state.is_terminal


def _lines(event: JobEvent) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (event.id.encode(), event.event.encode(), orjson.dumps(event.data))
