"""`Idempotency-Key`: one request with a key runs at a time, and its job answers later ones."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from starlette.requests import Request
from starlette.responses import Response

from jobs.errors import IdempotencyKeyInUse, StoreUnavailable
from jobs.ledger.interface import IdempotencyKey
from service.context import Context, context_of, owner_of
from service.problems import InvalidHeader

HOLD_S = 6.0  # how long a key stays taken after the process that held it died
MAX_LENGTH = 255


def key_of(request: Request) -> str | None:
    """The header's value; None without one. Raises InvalidHeader."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not (0 < len(key) <= MAX_LENGTH and key.isascii() and key.isprintable()):
        raise InvalidHeader(
            f"An Idempotency-Key has 1 to {MAX_LENGTH} printable ASCII characters.", field="Idempotency-Key"
        )
    return key


@asynccontextmanager
async def holding_key(request: Request) -> AsyncIterator[str | None]:
    """Keeps the request's key, if it has one, to itself until the reply is made. Raises IdempotencyKeyInUse."""
    key = key_of(request)
    if key is None:
        yield None
        return
    context, owner, holder = context_of(request), owner_of(request), secrets.token_hex(8)
    await context.call(context.ledger.hold_key, owner, key, holder=holder, hold_s=HOLD_S)
    renewal = asyncio.create_task(_renew(context, owner, key, holder))
    try:
        yield key
    finally:
        renewal.cancel()
        with suppress(StoreUnavailable):  # the hold then ends by itself
            await context.call(context.ledger.release_key, owner, key, holder=holder)


def once(
    request: Request,
    key: str | None,
    contents: str,
    act: Callable[[], tuple[Response, str]],
    again: Callable[[str], Response],
) -> Response:
    """`act`, unless the same request with this key was answered before: then `again`. For worker threads.

    `act` also returns what it was about, a job's or matrix's id, and `again` takes that. `contents` stands for the
    body. Raises IdempotencyKeyReused.
    """
    if key is None:
        return act()[0]
    ledger, owner = context_of(request).ledger, owner_of(request)
    what = f"{request.method} {request.url.path} {contents}"
    bound = IdempotencyKey(key, hashlib.sha256(what.encode()).hexdigest())
    if (subject := ledger.bound_job(owner, bound)) is not None:
        reply = again(subject)
        reply.headers["idempotent-replayed"] = "true"
        return reply
    reply, subject = act()
    ledger.bind_key(owner, bound, subject)
    return reply


async def _renew(context: Context, owner: str, key: str, holder: str) -> None:
    while True:
        await asyncio.sleep(HOLD_S / 3)
        with suppress(StoreUnavailable, IdempotencyKeyInUse):
            await context.call(context.ledger.hold_key, owner, key, holder=holder, hold_s=HOLD_S)
