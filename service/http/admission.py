"""Checks again whether a request's key or sign-in admits it, for what outlasts the gate's check: event streams and
waits. `service/http/security.py` puts the key into the request's state.
"""

from __future__ import annotations

import time

from starlette.requests import Request

from jobs.errors import StoreUnavailable, Unauthenticated
from service.context import Context, context_of
from service.keys import KeyRing, KnownKey

ADMITTED_S = 2.0  # how long a check holds; a waiter wakes up every `changes.RECHECK_S`, so both bound what is revoked
REVOKED = "This API key was revoked or has expired meanwhile."
SIGNED_OUT = "This sign-in has ended meanwhile; sign in again."


class Admission:
    """One request's. A server without keys admits everyone."""

    def __init__(self, request: Request) -> None:
        self._request = request  # most are answered before anything of it is looked at
        self._checked_at = time.monotonic()

    async def check(self) -> None:
        """Raises Unauthenticated if the request would not be admitted any more. Does nothing within ADMITTED_S of the
        last check.
        """
        if time.monotonic() < self._checked_at + ADMITTED_S:
            return
        context, state = context_of(self._request), self._request.scope["state"]
        known: KnownKey | None = state.get("key")
        if context.keys is not None and known is not None:
            context.keys.refresh()
            _check_key(context.keys, known)
            if (session := state.get("session")) is not None:
                await _check_session(context, context.keys, session)
        self._checked_at = time.monotonic()


def _check_key(keys: KeyRing, known: KnownKey) -> None:
    """A key with another secret, or a lower role, is another key."""
    now = keys.find(known.id)
    if now is None or now.digest != known.digest or now.role < known.role:
        raise Unauthenticated(REVOKED)


async def _check_session(context: Context, keys: KeyRing, session: str) -> None:
    try:
        known = await context.call(context.sessions.key_of, session, keys)
    except StoreUnavailable:
        return  # nothing that is kept there can be told either
    if known is None:
        raise Unauthenticated(SIGNED_OUT)
