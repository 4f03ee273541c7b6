"""Commands over connections that are taken and given back in a step each.

redis-py's own pool looks for data on a connection, counts, locks and tells listeners, each time: that takes longer than
sending a small script and reading its answer.
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Any

import redis

IDLE_S = 0.05  # a connection idle for so long may have been closed from the other side


class Connections:
    """As many as are in use at once, to where the client's pool leads. Safe to share between threads, and to fork."""

    def __init__(self, client: redis.Redis) -> None:
        self._pool = client.connection_pool
        self._free: deque[tuple[redis.Connection, float]] = deque()  # and since when
        self._pid = os.getpid()

    def ask(self, *command: str | bytes | int | float) -> Any:
        """Its answer as it comes. Nothing is sent twice: a command that got no answer may have been carried out.

        Raises redis.RedisError."""
        connection = self._taken()
        try:
            connection.send_command(*command)  # type: ignore[no-untyped-call]
            answer = connection.read_response()
        except redis.ResponseError:
            self._free.append((connection, time.monotonic()))
            raise
        except BaseException:
            connection.disconnect()  # type: ignore[no-untyped-call]
            raise
        self._free.append((connection, time.monotonic()))
        return answer

    def _taken(self) -> redis.Connection:
        """The one used last, or a new one. What a parent had open stays the parent's."""
        if self._pid != os.getpid():
            self._free, self._pid = deque(), os.getpid()
        try:
            connection, since = self._free.pop()
        except IndexError:
            connection, since = self._pool.connection_class(**self._pool.connection_kwargs), 0.0
        if time.monotonic() - since > IDLE_S:
            if connection.is_connected and _has_ended(connection):
                connection.disconnect()  # type: ignore[no-untyped-call]
            connection.connect()  # type: ignore[no-untyped-call]
        return connection


def _has_ended(connection: redis.Connection) -> bool:
    """Nothing was asked, so what there is to be read is the end."""
    try:
        return connection.can_read(timeout=0)
    except (redis.ConnectionError, redis.TimeoutError, OSError):
        return True
