"""Waits for replicas of Redis. A failover loses what its replica had not got: Redis answers a change before that.

WAIT asks about the last change of its own connection, and replicas get all changes in one order. So a change of no
effect goes out first: once a replica has that one, it has all that was answered before, to anyone.

By the server that answers it, that is. Where another took its place in between, its replicas may have all of its own,
and the change is gone. So whoever waits shows what the change left in its job, and that is looked for first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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
FAILED_OVER = (
    "Another server became the job store before it had all that was recorded, so this may be lost. Try again with the "
    "same Idempotency-Key."
)
NOT_THE_PRIMARY = "WAIT cannot be used"  # its refusal, which has no code

Command = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """What a change leaves in its job: a number in this field of its hash, at least so high."""

    job_id: str
    field: str = "version"
    minimum: int = 0

    def is_in(self, found: bytes | None) -> bool:
        return found is not None and int(found) >= self.minimum


def _commands(settings: Settings, marks: Sequence[Mark]) -> list[Command]:
    """The marks first: what has been read when the change goes out is before it. A message that nobody hears is a
    change that leaves no key behind."""
    prefix, for_ms = settings.key_prefix, max(1, round(settings.redis_timeout_s * SHARE_OF_TIMEOUT * 1000))
    looks: list[Command] = [("HGET", f"{prefix}job:{mark.job_id}", mark.field) for mark in marks]
    return [*looks, ("PUBLISH", f"{prefix}replicated", ""), ("WAIT", settings.redis_replicas, for_ms)]


def _is_replicas(refused: redis.ResponseError) -> bool:
    """Whether it is what a replica says to WAIT, or to a change."""
    return NOT_THE_PRIMARY in str(refused) or isinstance(refused, redis.exceptions.ReadOnlyError)


@contextmanager
def _translated() -> Iterator[None]:
    with translated():
        try:
            yield
        except redis.ResponseError as refused:
            if not _is_replicas(refused):
                raise
            raise redis.exceptions.ReadOnlyError(f"READONLY {refused}") from refused


def _refusal(sentence: str, cause: str) -> StoreUnavailable:
    """As one of Redis, which may still be read."""
    error = StoreUnavailable(sentence)
    error.__cause__ = redis.ResponseError(cause)
    return error


def _check(settings: Settings, marks: Sequence[Mark], answers: Sequence[Any]) -> None:
    """Raises StoreUnavailable. `answers` are those of the marks, and how many replicas have it."""
    *found, has_it = answers
    if has_it < settings.redis_replicas:
        raise _refusal(TOO_FEW, f"{has_it} replicas have it")
    if not all(mark.is_in(each) for mark, each in zip(marks, found, strict=True)):
        raise _refusal(FAILED_OVER, "the job is not as it was left")


class ReplicaWait:
    """For threads."""

    def __init__(self, connections: Connections, settings: Settings) -> None:
        self._connections, self._settings = connections, settings

    def wait(self, *marks: Mark) -> None:
        """Returns once so many replicas as the setting says have all that was answered before, if the server that
        answers now has it. Raises StoreUnavailable."""
        if not self._settings.redis_replicas:
            return
        with _translated():
            answers = self._ask_primary(_commands(self._settings, marks), len(marks))
        _check(self._settings, marks, [*answers[: len(marks)], answers[-1]])

    def _ask_primary(self, commands: Sequence[Command], marks: int) -> Sequence[Any]:
        """As `ReplicaLine._ask_primary`."""
        try:
            return self._connections.ask_together(*commands)
        except redis.ResponseError as refused:
            if not (marks and _is_replicas(refused)):
                raise
            self._connections.close()
            return self._connections.ask_together(*commands)


class ReplicaLine:
    """The same for one event loop, over a connection of its own, which WAIT holds up. Who comes while a question is
    under way shares the next one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection: redis.asyncio.Connection | None = None
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[Sequence[Any]] | None = None
        self._marks: list[Mark] = []  # of all who share it

    async def wait(self, *marks: Mark) -> None:
        """As `ReplicaWait.wait`."""
        if not self._settings.redis_replicas:
            return
        if self._next is None:
            self._marks = []
            self._next = asyncio.create_task(self._ask_next(self._marks))
        first = len(self._marks)
        self._marks += marks
        *found, has_it = await asyncio.shield(self._next)
        _check(self._settings, marks, [*found[first : first + len(marks)], has_it])

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.disconnect(nowait=True)

    async def _ask_next(self, marks: Sequence[Mark]) -> Sequence[Any]:
        """What is found of each, and how many replicas have it."""
        async with self._turn:
            self._next = None  # what others change from now on is not in the answer
            with _translated():
                try:
                    async with asyncio.timeout(self._settings.redis_timeout_s):
                        return await self._ask_primary(_commands(self._settings, marks), len(marks))
                except redis.ResponseError:
                    await self.close()
                    raise
                except CONNECTION_LOST as error:
                    await self.close()
                    raise unavailable(error) from error

    async def _ask_primary(self, commands: Sequence[Command], marks: int) -> Sequence[Any]:
        """Asks once more where what answers is a replica: the address may lead to the primary by now, and the marks
        show whether that has the changes. Who shows none would be told of a server that never had its change."""
        try:
            return await self._ask(commands)
        except redis.ResponseError as refused:
            if not (marks and _is_replicas(refused)):
                raise
            await self.close()
            return await self._ask(commands)

    async def _ask(self, commands: Sequence[Command]) -> Sequence[Any]:
        connection = self._connection = self._connection or connect_alone(self._settings)
        if connection.is_connected and await connection.can_read():  # nothing was asked, so it is the end
            await connection.disconnect(nowait=True)
        if not connection.is_connected:
            await connection.connect()  # type: ignore[no-untyped-call]
        await connection.send_packed_command(connection.pack_commands(commands))
        answers = [await connection.read_response() for _ in commands]
        return [*answers[:-2], int(answers[-1])]
