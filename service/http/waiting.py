"""Waiting for a job, as long as `Prefer` asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response

from jobs.errors import StoreUnavailable
from jobs.ledger.ends import JobEnd
from service.changes import Watch
from service.context import context_of
from service.http.admission import Admission
from service.http.listed import listed
from service.http.preferences import Wait, parse_wait


def wait_of(request: Request, *, default_s: float) -> Wait:
    """How long the caller waits; `default_s` if it does not say."""
    settings = context_of(request).settings
    return parse_wait(listed(request, "prefer"), default_s=default_s, max_s=settings.max_wait_s)


def applied(wait: Wait) -> dict[str, str]:
    return {} if wait.applied is None else {"preference-applied": wait.applied}


async def first_reply(
    request: Request,
    watch: Watch,
    seconds: float,
    look: Callable[[], Response | None],
    answered: Callable[[JobEnd], Awaitable[Response | None]] | None = None,
) -> Response | None:
    """The first non-None result of `look`, which is called in a worker thread whenever the job changes; None after
    `seconds`. `answered` makes the reply directly from a job's end that was sent to this process. Since the job is
    recorded, outages of the store are waited out. Raises Unauthenticated within seconds if the request's key is revoked
    meanwhile.
    """
    context, admission = context_of(request), Admission(request)
    now = asyncio.get_running_loop().time
    until = now() + seconds
    while (left_s := until - now()) > 0 and await watch.change(left_s):
        await admission.check()
        if answered is not None and watch.answer is not None:
            return await answered(watch.answer)
        with suppress(StoreUnavailable):
            if (reply := await context.call(look)) is not None:
                return reply
    return None
