"""Server-sent events of a job: first those after the caller's last event, then new ones until the job's end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request

from jobs.errors import JobNotFound, MatmulError, StoreUnavailable, Unauthenticated
from service.api_process.event_text import EventText, event_text
from service.changes import Watch
from service.context import Context, context_of
from service.http.admission import Admission

PING_S = 8.0
RETRY_MS = 1000  # delay after which a disconnected client reconnects


async def events_after(context: Context, job_id: str, event_id: str) -> EventText | None:
    """The job's events after that one, if there are any. Readers of one job mostly ask for the same, so they share the
    answer. Raises StoreUnavailable.
    """

    def read() -> EventText | None:
        return event_text(context.ledger.events(job_id, after=event_id))

    return await context.events.ask((job_id, event_id), lambda: context.call(read))


async def stream(
    request: Request, watch: Watch, job_id: str, first: EventText | None, last_id: str
) -> AsyncIterator[bytes]:
    """Streams events. `first` are the events after `last_id`. Ends after the job's final event, when the job is gone or
    has ended before `last_id`, when the service stops, or within seconds after the request's key is revoked or expires.
    After PING_S without an event a comment is sent, because intermediaries close silent connections.
    """
    context, admission = context_of(request), Admission(request)
    now = asyncio.get_running_loop().time
    yield b"retry: %d\n\n" % RETRY_MS
    events, ping_at = first, now() + PING_S
    while True:
        if events is not None:
            for piece in events.pieces:
                yield piece
            last_id, ping_at = events.last_id, now() + PING_S
            if events.is_end:
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
            events, is_over = None, False  # wait for the outage to end: the events are kept
        if is_over and events is None:
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
