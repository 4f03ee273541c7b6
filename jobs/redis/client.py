"""Connections to Redis that fail fast, and the one place where Redis' errors are translated into the service's own."""

from __future__ import annotations

import socket
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
import redis.asyncio.retry
import structlog
from redis.backoff import NoBackoff

from jobs.errors import StoreFull, StoreUnavailable
from jobs.redis.connections import client_of
from jobs.setting_groups.redis_tls import refusal
from jobs.settings import Settings

# First words of replies that say "not now": the server is there but does not serve (loading its data, a replica,
# its disk is full, a script is stuck). redis-py has no class for some of them.
NOT_NOW = ("LOADING", "MASTERDOWN", "READONLY", "MISCONF", "NOREPLICAS", "BUSY", "CLUSTERDOWN", "TRYAGAIN", "NOPERM")
SAID = {
    "MISCONF": "The job store cannot write to its disk; try again once there is room on it.",
    "READONLY": "The job store is a replica, which takes no changes; try again once it is the primary again.",
    "NOREPLICAS": "The job store has too few replicas to take changes; try again once they are back.",
}
# Errors that an event loop may raise after a connection ended; uvloop raises RuntimeError for a transport just closed.
CONNECTION_LOST = (redis.RedisError, OSError, RuntimeError)
REDIS_FULL = "The job store has no memory left; try again when some jobs have ended."


log = structlog.get_logger(__name__)

# TCP keepalive for connections whose other end vanished silently, such as behind a NAT that dropped them: the kernel
# probes after 2 s of silence and then every second, and drops the connection 5 s after the last sign of life.
_SILENCE = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 5000}


def keepalive_options(settings: Settings) -> dict[str, Any]:
    """Keepalive options for TCP connections, in the names of redis-py and kombu; empty for a Unix socket, which does
    not need them.
    """
    if settings.redis_url.get_secret_value().startswith("unix://"):
        return {}
    options = {getattr(socket, name): value for name, value in _SILENCE.items() if hasattr(socket, name)}
    return {"socket_keepalive": True, "socket_keepalive_options": options}


def address_of(settings: Settings) -> str:
    """Redis' address for messages, without the password."""
    url = urlsplit(settings.redis_url.get_secret_value())
    return f"{url.hostname}:{url.port or 6379}" if url.hostname else url.path


def _options(settings: Settings, timeout_s: float | None) -> dict[str, Any]:
    timeout = settings.redis_timeout_s if timeout_s is None else timeout_s
    return {
        **keepalive_options(settings),
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "decode_responses": False,
        "max_connections": 256,  # more than there are threads: a caller never waits for a connection
    }


def connect(settings: Settings, *, timeout_s: float | None = None) -> redis.Redis:
    """A client for `settings.redis_url`, safe to share between threads. Nothing is sent yet.

    Connecting and each answer may take `timeout_s` (default: `settings.redis_timeout_s`). A command is sent again only
    if a replica refused it: a command that timed out may have been carried out, and only the caller knows whether that
    matters.
    """
    url = settings.redis_url.get_secret_value()
    return client_of(url, **_options(settings, timeout_s))


def connect_async(settings: Settings) -> redis.asyncio.Redis:
    """The same for asyncio, for the one connection of a process that listens for changes."""
    url = settings.redis_url.get_secret_value()
    retry = redis.asyncio.retry.Retry(NoBackoff(), 0)
    return redis.asyncio.Redis.from_url(url, retry=retry, **_options(settings, None))


def connect_alone(settings: Settings) -> redis.asyncio.Connection:
    """One asyncio connection, not opened yet. The caller sets timeouts for answers itself."""
    url = settings.redis_url.get_secret_value()
    options = _options(settings, None) | {"socket_timeout": None}
    pool = redis.asyncio.ConnectionPool.from_url(url, retry=redis.asyncio.retry.Retry(NoBackoff(), 0), **options)
    connection: redis.asyncio.Connection = pool.make_connection()  # type: ignore[no-untyped-call]
    return connection


def unavailable(error: BaseException) -> StoreUnavailable:
    """StoreUnavailable for a connection error. Details of TLS problems are logged for the operator, not sent to
    callers.
    """
    if (reason := refusal(error)) is None:
        return StoreUnavailable()
    log.error("Redis is not reached by TLS", reason=reason)
    return StoreUnavailable("The job store cannot be reached by TLS; the log of the service says why.")


def cause_of(error: BaseException) -> str:
    """What Redis, or the network, said; for the operator, as callers get a sentence without it."""
    return str(error.__cause__ or error)


class _Translated(ContextDecorator):
    """Holds nothing, so one serves all."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if isinstance(error, redis.ConnectionError | redis.TimeoutError):
            raise unavailable(error) from error
        if isinstance(error, redis.ResponseError):
            code = error.status_code or str(error).partition(" ")[0]
            if code == "OOM":
                raise StoreFull(REDIS_FULL) from error
            if code in NOT_NOW:
                raise StoreUnavailable(SAID.get(code)) from error


_translated = _Translated()


def translated() -> _Translated:
    """Turns Redis' errors into StoreUnavailable and StoreFull; also a decorator, `@translated()`.

    Other errors pass through: they are defects of the service and must be visible.
    """
    return _translated
