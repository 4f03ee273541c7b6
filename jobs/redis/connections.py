"""A fast connection pool. redis-py's own pool checks the connection for data, counts, locks and notifies listeners on
each use, which takes longer than sending a small script and reading its answer.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import hiredis
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

IDLE_S = 0.05  # a connection idle for so long may have been closed from the other side


class Connections:
    """Grows to as many connections as are in use at the same time, to the pool's server. Safe to share between threads,
    and across a fork.
    """

    def __init__(self, pool: redis.ConnectionPool) -> None:
        self._pool = pool
        self._free: deque[tuple[redis.Connection, float]] = deque()  # and since when
        self._pid = os.getpid()
        self.opened = 0  # how often it connected: a server that began anew answers over none that was open before

    def ask(self, *command: str | bytes | int | float) -> Any:
        """The raw answer to a command. A command that a replica refused changed nothing and is sent once more, because
        the address may lead to the primary by now. No other command is sent twice: without an answer it may have been
        carried out.

        Raises redis.RedisError."""
        try:
            return self._ask(*command)
        except redis.exceptions.ReadOnlyError:
            return self._ask(*command)

    def _ask(self, *command: str | bytes | int | float) -> Any:
        return self.send(*command)()

    def send(self, *command: str | bytes | int | float) -> Callable[[], Any]:
        """Sends a command. What this returns waits for the raw answer, and must be called once. Both raise
        redis.RedisError."""
        connection = self._taken()
        try:
            connection.send_packed_command([packed(command)])  # type: ignore[no-untyped-call]
        except BaseException:
            connection.disconnect()  # type: ignore[no-untyped-call]
            raise
        return partial(self._answer_over, connection)

    def _answer_over(self, connection: redis.Connection) -> Any:
        try:
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

    def ask_together(self, *commands: Sequence[str | int | float]) -> list[Any]:
        """The answers to several commands, sent together over one connection. Raises as `ask`."""
        answers = self.ask_each(*commands)
        for answer in answers:
            if isinstance(answer, redis.ResponseError):
                raise answer
        return answers

    def ask_each(self, *commands: Sequence[str | bytes | int | float]) -> list[Any]:
        """As `ask_together`, but a refused command has its ResponseError as its answer. Raises redis.RedisError if a
        command got no answer.
        """
        connection = self._taken()
        try:
            connection.send_packed_command([b"".join(map(packed, commands))])  # type: ignore[no-untyped-call]
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
        """Closes all idle connections. Later commands open new ones."""
        with suppress(IndexError):  # when there is none left
            while self._pid == os.getpid():
                self._free.pop()[0].disconnect()  # type: ignore[no-untyped-call]

    def _taken(self) -> redis.Connection:
        """The most recently used connection, or a new one. Connections opened before a fork are left to the parent."""
        if self._pid != os.getpid():
            self._free, self._pid = deque(), os.getpid()
        try:
            connection, since = self._free.pop()
        except IndexError:
            connection, since = self._pool.connection_class(**self._pool.connection_kwargs), 0.0
        if time.monotonic() - since > IDLE_S:
            if connection.is_connected and _has_ended(connection):
                connection.disconnect()  # type: ignore[no-untyped-call]
            self.opened += not connection.is_connected
            connection.connect()  # type: ignore[no-untyped-call]
        return connection


class Pool(redis.ConnectionPool):
    """redis-py's pool, plus `Connections` that are closed together with its client."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.beside = Connections(self)

    def disconnect(self, inuse_connections: bool = True) -> None:
        super().disconnect(inuse_connections)
        self.beside.close()


def beside(client: redis.Redis) -> Connections:
    """The `Connections` of a client made by `client_of`."""
    pool = client.connection_pool
    assert isinstance(pool, Pool), "a client that nobody would close"
    return pool.beside


class _OnceMoreOfThePrimary(Retry):
    """A retry policy that resends only commands that a replica refused, over a new connection, as `Connections.ask`
    does.
    """

    def __init__(self) -> None:
        given_up = (redis.ConnectionError, redis.TimeoutError, TimeoutError, redis.exceptions.ReadOnlyError)
        super().__init__(NoBackoff(), 0, given_up)

    def call_with_retry(self, *about: Any, **options: Any) -> Any:
        try:
            return super().call_with_retry(*about, **options)
        except redis.exceptions.ReadOnlyError:
            return super().call_with_retry(*about, **options)


def client_of(url: str, **options: Any) -> redis.Redis:
    """A client with its own pool. Nothing is sent yet."""
    return redis.Redis.from_pool(Pool.from_url(url, retry=_OnceMoreOfThePrimary(), **options))


def packed(command: Sequence[str | bytes | int | float]) -> bytes:
    """The command as it is sent. redis-py looks at each argument before it leaves this to hiredis, which takes twice as
    long."""
    whole: bytes = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]  # whose stub knows one argument alone
    return whole


def _answer(connection: redis.Connection) -> Any:
    """The connection's next answer, which may be a refusal."""
    try:
        return connection.read_response()
    except redis.ResponseError as refusal:
        return refusal


def _has_ended(connection: redis.Connection) -> bool:
    """Whether the server closed the connection: nothing was asked, so readable data can only be the end."""
    try:
        return connection.can_read(timeout=0)
    except (redis.ConnectionError, redis.TimeoutError, OSError):
        return True
