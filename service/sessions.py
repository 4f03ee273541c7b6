"""Sign-ins of browsers: a random name in a cookie stands for an API key, for some hours, until sign-out or until the
key is revoked. Redis keeps the name's hash, so whoever reads Redis cannot sign in with it.
"""

from __future__ import annotations

import hashlib
import secrets

import redis

from jobs.redis.client import translated
from jobs.settings import Settings
from service.keys import KeyRing, KnownKey

NAME_BYTES = 32
MAX_NAME_LENGTH = 64
COOKIE = "matmul_session"


def cookie_name(settings: Settings) -> str:
    """Browsers take a `__Host-` cookie only over TLS, and from this very host."""
    return f"__Host-{COOKIE}" if settings.behind_tls else COOKIE


class Sessions:
    """Those of all API processes. All methods raise StoreUnavailable."""

    def __init__(self, client: redis.Redis, settings: Settings) -> None:
        self._client = client
        self._prefix = f"{settings.key_prefix}session:"
        self.ttl_s = settings.session_ttl_s

    def _key(self, name: str) -> str:
        return self._prefix + hashlib.sha256(name.encode()).hexdigest()

    @translated()
    def begin(self, key: KnownKey) -> str:
        """The name of a new session of that key. Raises StoreFull."""
        name = secrets.token_urlsafe(NAME_BYTES)
        self._client.set(self._key(name), f"{key.id} {_mark(key)}", ex=self.ttl_s)
        return name

    @translated()
    def key_of(self, name: str, ring: KeyRing) -> KnownKey | None:
        """Whose session it is; None where it ended, or where its key expired, was revoked or replaced."""
        kept = self._client.get(self._key(name)) if len(name) <= MAX_NAME_LENGTH else None
        if not isinstance(kept, bytes):
            return None
        key_id, _, mark = kept.decode().partition(" ")
        known = ring.find(key_id)
        return known if known is not None and _mark(known) == mark else None

    @translated()
    def end(self, name: str) -> None:
        self._client.delete(self._key(name))


def _mark(key: KnownKey) -> str:
    """Another one where the id is given to another key."""
    return hashlib.sha256(key.digest.encode()).hexdigest()
