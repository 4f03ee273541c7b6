"""Commands over connections that are taken and given back in a step each.

redis-py's own pool looks for data on a connection, counts, locks and tells listeners, each time: that takes longer than
sending a small script and reading its answer.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

IDLE_S = 0.05  # a connection idle for so long may have been closed from the other side


class Connections:
    """As many as are in use at once, to where the pool leads. Safe to share between threads, and to fork."""

    def __init__(self, pool: redis.ConnectionPool) -> None:
        self._pool = pool
        self._free: deque[tuple[redis.Connection, float]] = deque()  # and since when
        self._pid = os.getpid()

    def ask(self, *command: str | bytes | int | float) -> Any:
        """Its answer as it comes. A command that a replica refused changed nothing, and is sent once more: the address
        may lead to the primary by now. Nothing else is sent twice: what got no answer may have been carried out.

        Raises redis.RedisError."""
        try:
            return self._ask(*command)
        except redis.exceptions.ReadOnlyError:
            return self._ask(*command)

    def _ask(self, *command: str | bytes | int | float) -> Any:
        connection = self._taken()
        try:
            connection.send_command(*command)  # type: ignore[no-untyped-call]
            answer = connection.read_response()
        except redis.exceptions.ReadOnlyError:
            connection.disconnect()  # type: ignore[no-untyped-call]
            self.close()  # the others lead to the same server
            raise
        except redis.ResponseError:
            self._free.append((connection, time.monotonic()))
            raise
        except BaseException:
            connection.disconnect()  # type: ignore[no-untyped-call]
            raise
        self._free.append((connection, time.monotonic()))
        return answer

    def ask_together(self, *commands: Sequence[str | int]) -> list[Any]:
        """Their answers, over one connection in one step. Raises as `ask`."""
        answers = self.ask_each(*commands)
        for answer in answers:
            if isinstance(answer, redis.ResponseError):
                raise answer
        return answers

    def ask_each(self, *commands: Sequence[str | bytes | int | float]) -> list[Any]:
        """The same, but a refusal is one of the answers. Raises redis.RedisError where one of them got none."""
        connection = self._taken()
        try:
            connection.send_packed_command(connection.pack_commands(commands))  # type: ignore[no-untyped-call]
            answers = [_answer(connection) for _ in commands]
        except BaseException:
            connection.disconnect()  # type: ignore[no-untyped-call]
            raise
        if any(isinstance(answer, redis.exceptions.ReadOnlyError) for answer in answers):
            connection.disconnect()  # type: ignore[no-untyped-call]
            self.close()  # the others lead to the same server
        else:
            self._free.append((connection, time.monotonic()))
        return answers

    def close(self) -> None:
        """Those that nobody uses now. Who asks afterwards gets a new one."""
        with suppress(IndexError):  # when there is none left
            while self._pid == os.getpid():
                self._free.pop()[0].disconnect()  # type: ignore[no-untyped-call]

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


class Pool(redis.ConnectionPool):
    """redis-py's own, and connections beside it that are closed when its client is."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.beside = Connections(self)

    def disconnect(self, inuse_connections: bool = True) -> None:
        super().disconnect(inuse_connections)
        self.beside.close()


def beside(client: redis.Redis) -> Connections:
    """Those of a client that `client_of` made."""
    pool = client.connection_pool
    assert isinstance(pool, Pool), "a client that nobody would close"
    return pool.beside


class _OnceMoreOfThePrimary(Retry):
    """What a replica refused is sent once more over a new connection, as `Connections.ask` does; nothing else is."""

    def __init__(self) -> None:
        given_up = (redis.ConnectionError, redis.TimeoutError, TimeoutError, redis.exceptions.ReadOnlyError)
        super().__init__(NoBackoff(), 0, given_up)

    def call_with_retry(self, *about: Any, **options: Any) -> Any:
        try:
            return super().call_with_retry(*about, **options)
        except redis.exceptions.ReadOnlyError:
            return super().call_with_retry(*about, **options)


def client_of(url: str, **options: Any) -> redis.Redis:
    """With a pool of its own. Nothing is sent yet."""
    return redis.Redis.from_pool(Pool.from_url(url, retry=_OnceMoreOfThePrimary(), **options))


def _answer(connection: redis.Connection) -> Any:
    """Its next one, which may be a refusal."""
    try:
        return connection.read_response()
    except redis.ResponseError as refusal:
        return refusal


def _has_ended(connection: redis.Connection) -> bool:
    """Nothing was asked, so what there is to be read is the end."""
    try:
        return connection.can_read(timeout=0)
    except (redis.ConnectionError, redis.TimeoutError, OSError):
        return True
