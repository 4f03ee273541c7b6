"""Browser sessions: a random name in a cookie represents an API key for some hours, until sign-out, or until the key is
revoked. Redis keeps only the name's hash, so reading Redis does not allow signing in.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any

import redis

from jobs.redis.client import translated
from jobs.settings import Settings
from service.keys import KeyRing, KnownKey

NAME_BYTES = 32
MAX_NAME_LENGTH = 64
MAX_SESSIONS = 1000  # of one key; a further one ends the oldest, so that sign-ins without end fill nothing
COOKIE = "matmul_session"


def cookie_name(settings: Settings) -> str:
    """The cookie's name. Browsers accept a `__Host-` cookie only over TLS and from this exact host."""
    return f"__Host-{COOKIE}" if settings.behind_tls else COOKIE


class Sessions:
    """The sessions of all API processes. All methods raise StoreUnavailable."""

    def __init__(self, client: redis.Redis, settings: Settings) -> None:
        self._client = client
        self._prefix = f"{settings.key_prefix}session:"
        self._of_key = f"{settings.key_prefix}sessions:"  # a sorted set for each key: its sessions, by their begin
        self.ttl_s = settings.session_ttl_s

    def _key(self, name: str) -> str:
        return self._prefix + hashlib.sha256(name.encode()).hexdigest()

    @translated()
    def begin(self, key: KnownKey) -> str:
        """Starts a session for that key and returns its name. Raises StoreFull."""
        name, now = secrets.token_urlsafe(NAME_BYTES), time.time()
        of_key = f"{self._of_key}{key.id}"
        with self._client.pipeline() as pipe:
            pipe.set(self._key(name), f"{key.id} {_mark(key)}", ex=self.ttl_s)
            pipe.zremrangebyscore(of_key, "-inf", now - self.ttl_s)
            pipe.zadd(of_key, {self._key(name): now})
            pipe.expire(of_key, self.ttl_s)
            pipe.zcard(of_key)
            count: int = pipe.execute()[-1]
        if count > MAX_SESSIONS:
            oldest: Any = self._client.zpopmin(of_key, count - MAX_SESSIONS)
            self._client.delete(*(session for session, _ in oldest))
        return name

    @translated()
    def key_of(self, name: str, ring: KeyRing) -> KnownKey | None:
        """The key of a session; None if the session ended, or its key expired, was revoked or replaced."""
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
    """A mark of the key, which differs if the id is reused for another key."""
    return hashlib.sha256(key.digest.encode()).hexdigest()
