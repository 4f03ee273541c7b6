"""`Idempotency-Key`: only one request with a key runs at a time, and later ones get its job."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from starlette.requests import Request
from starlette.responses import Response

from jobs.errors import IdempotencyKeyInUse, NotFound, StoreUnavailable
from jobs.ledger.interface import IdempotencyKey
from service.context import Context, context_of, owner_of
from service.http.listed import sole
from service.problems import InvalidHeader

HOLD_S = 6.0  # how long a key stays taken after the process that held it died
RELEASE_S = 0.25  # interval of attempts to release a key while Redis does not answer
MAX_LENGTH = 255


def key_of(request: Request) -> str | None:
    """The header's value; None if absent. Raises InvalidHeader."""
    key = sole(request, "Idempotency-Key")
    if key is None:
        return None
    if not (0 < len(key) <= MAX_LENGTH and key.isascii() and key.isprintable()):
        raise InvalidHeader(
            f"An Idempotency-Key has 1 to {MAX_LENGTH} printable ASCII characters.", field="Idempotency-Key"
        )
    return key


@asynccontextmanager
async def holding_key(request: Request) -> AsyncIterator[str | None]:
    """Reserves the request's key, if it has one, until the reply is made. Raises IdempotencyKeyInUse."""
    key = key_of(request)
    if key is None:
        yield None
        return
    context, owner, holder = context_of(request), owner_of(request), secrets.token_hex(8)
    try:
        await context.call(context.ledger.hold_key, owner, key, holder=holder, hold_s=HOLD_S)
    except (StoreUnavailable, asyncio.CancelledError):  # a call that got no answer may have been carried out
        context.in_background(_release_later(context, owner, key, holder))
        raise
    renewal = asyncio.create_task(_renew(context, owner, key, holder))
    try:
        yield key
    finally:
        renewal.cancel()
        if not await _is_released(context, owner, key, holder):
            context.in_background(_release_later(context, owner, key, holder))


async def _is_released(context: Context, owner: str, key: str, holder: str) -> bool:
    """Releases the key; returns whether it succeeded. Bypasses the circuit breaker, because the caller's next step
    depends on it.
    """
    try:
        await context.call_anyway(context.ledger.release_key, owner, key, holder=holder)
    except StoreUnavailable:
        return False
    return True


async def _release_later(context: Context, owner: str, key: str, holder: str) -> None:
    """Releases the key as soon as Redis answers again, or gives up when the hold has expired by itself."""
    until = time.monotonic() + HOLD_S
    while time.monotonic() < until:
        await asyncio.sleep(RELEASE_S)
        if await _is_released(context, owner, key, holder):
            return


async def _renew(context: Context, owner: str, key: str, holder: str) -> None:
    while True:
        await asyncio.sleep(HOLD_S / 3)
        with suppress(StoreUnavailable, IdempotencyKeyInUse):
            await context.call(context.ledger.hold_key, owner, key, holder=holder, hold_s=HOLD_S)


def bound_as(request: Request, key: str | None, contents: str = "") -> IdempotencyKey | None:
    """The key with the request's fingerprint. `contents` represents the body."""
    if key is None:
        return None
    what = f"{request.method} {request.url.path} {contents}"
    return IdempotencyKey(key, hashlib.sha256(what.encode()).hexdigest())


def as_replay(reply: Response) -> Response:
    reply.headers["idempotent-replayed"] = "true"
    return reply


def once(
    request: Request,
    key: str | None,
    contents: str,
    act: Callable[[], tuple[Response, str]],
    again: Callable[[str], Response],
) -> Response:
    """Calls `act`, or `again` if the same request with this key was answered before; a replay has the first reply's
    status. For worker threads. `act` must be safe to repeat, because the key is bound afterwards. It also returns its
    subject, the id of a job or matrix, which is passed to `again`. `contents` represents the body. Raises
    IdempotencyKeyReused.
    """
    bound = bound_as(request, key, contents)
    if bound is None:
        return act()[0]
    ledger, owner = context_of(request).ledger, owner_of(request)
    if (answered := ledger.bound_job(owner, bound)) is not None:
        status, _, subject = answered.rpartition(" ")  # earlier versions bound the subject without a status
        with suppress(NotFound):  # its subject was deleted or expired: the request is carried out as a new one
            replay = as_replay(again(subject))
            replay.status_code = int(status or replay.status_code)
            return replay
    reply, subject = act()
    ledger.bind_key(owner, bound, f"{reply.status_code} {subject}")
    return reply
