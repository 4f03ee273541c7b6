"""Waits for replicas of Redis. A failover loses what its replica had not got: Redis answers a change before that.

WAIT asks about the last change of its own connection, and replicas get all changes in one order. So a change of no
effect goes out first: once a replica has that one, it has all that was answered before, to anyone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from jobs.errors import StoreUnavailable
from jobs.redis.client import CONNECTION_LOST, connect_alone, translated, unavailable
from jobs.redis.connections import Connections
from jobs.settings import Settings

SHARE_OF_TIMEOUT = 0.75  # of what an answer of Redis may take: it comes in time also where replicas do not
TOO_FEW = (
    "Too few replicas of the job store have what it recorded; it may be recorded all the same. Try again with the same "
    "Idempotency-Key."
)

NOT_THE_PRIMARY = "WAIT cannot be used"  # its refusal, which has no code

Command = tuple[str | int, ...]


def _commands(settings: Settings) -> tuple[Command, Command]:
    """A message that nobody hears is a change that leaves no key behind."""
    for_ms = max(1, round(settings.redis_timeout_s * SHARE_OF_TIMEOUT * 1000))
    return ("PUBLISH", f"{settings.key_prefix}replicated", ""), ("WAIT", settings.redis_replicas, for_ms)


@contextmanager
def _translated() -> Iterator[None]:
    with translated():
        try:
            yield
        except redis.ResponseError as refused:
            if NOT_THE_PRIMARY not in str(refused):
                raise
            raise redis.exceptions.ReadOnlyError(f"READONLY {refused}") from refused


def _too_few(count: int) -> StoreUnavailable:
    """As a refusal of Redis, which may still be read."""
    error = StoreUnavailable(TOO_FEW)
    error.__cause__ = redis.ResponseError(f"{count} replicas have it")
    return error


class ReplicaWait:
    """For threads."""

    def __init__(self, connections: Connections, settings: Settings) -> None:
        self._connections = connections
        self._replicas = settings.redis_replicas
        self._commands = _commands(settings)

    def wait(self) -> None:
        """Returns once so many replicas as the setting says have all that was answered before. Raises
        StoreUnavailable."""
        if not self._replicas:
            return
        with _translated():
            has_it = self._connections.ask_together(*self._commands)[-1]
        if has_it < self._replicas:
            raise _too_few(has_it)


class ReplicaLine:
    """The same for one event loop, over a connection of its own, which WAIT holds up. Who comes while a question is
    under way shares the next one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection: redis.asyncio.Connection | None = None
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """As `ReplicaWait.wait`."""
        if not self._settings.redis_replicas:
            return
        if self._next is None:
            self._next = asyncio.create_task(self._ask_next())
        await asyncio.shield(self._next)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.disconnect(nowait=True)

    async def _ask_next(self) -> None:
        async with self._turn:
            self._next = None  # what others change from now on is not in the answer
            with _translated():
                try:
                    async with asyncio.timeout(self._settings.redis_timeout_s):
                        has_it = await self._ask()
                except redis.ResponseError:
                    await self.close()
                    raise
                except CONNECTION_LOST as error:
                    await self.close()
                    raise unavailable(error) from error
            if has_it < self._settings.redis_replicas:
                raise _too_few(has_it)

    async def _ask(self) -> int:
        connection = self._connection = self._connection or connect_alone(self._settings)
        if connection.is_connected and await connection.can_read():  # nothing was asked, so it is the end
            await connection.disconnect(nowait=True)
        if not connection.is_connected:
            await connection.connect()  # type: ignore[no-untyped-call]
        commands = _commands(self._settings)
        await connection.send_packed_command(connection.pack_commands(commands))
        answers = [await connection.read_response() for _ in commands]
        return int(answers[-1])
