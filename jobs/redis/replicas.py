"""Waits for replicas of Redis. Redis answers a change before its replicas have it, so a failover can lose it. WAIT
concerns the last change of its own connection, and replicas receive all changes in one order. So a change without
effect is sent first: once a replica has it, the replica also has every change that this server answered before, to
anyone. If another server was promoted in between, its replicas may have all of its own changes while the awaited one is
lost. So the caller passes the mark that the change left in its job, and the mark is checked first.
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

SHARE_OF_TIMEOUT = 0.75  # share of Redis' timeout, so that an answer comes in time even if replicas do not answer
TOO_FEW = (
    "Too few replicas of the job store have what it recorded; it may be recorded all the same, so try again with "
    "the same Idempotency-Key."
)
FAILED_OVER = (
    "Another server became the job store before it had all that was recorded, so this may be lost; try again with the "
    "same Idempotency-Key."
)
NOT_THE_PRIMARY = "WAIT cannot be used"  # its refusal, which has no code

Command = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of a change in its job: this field of its hash is at least this number."""

    job_id: str
    field: str = "version"
    minimum: int = 0

    def is_in(self, found: bytes | None) -> bool:
        return found is not None and int(found) >= self.minimum


def _commands(settings: Settings, marks: Sequence[Mark]) -> list[Command]:
    """The commands to send. The marks are read first, before the change. The change without effect is a message that
    nobody receives, so it leaves no key.
    """
    prefix, for_ms = settings.key_prefix, max(1, round(settings.redis_timeout_s * SHARE_OF_TIMEOUT * 1000))
    looks: list[Command] = [("HGET", f"{prefix}job:{mark.job_id}", mark.field) for mark in marks]
    return [*looks, ("PUBLISH", f"{prefix}replicated", ""), ("WAIT", settings.redis_replicas, for_ms)]


def _is_replicas(refused: redis.ResponseError) -> bool:
    """Whether the error is a replica's refusal of WAIT or of a change."""
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
    """Raises StoreUnavailable if a mark is missing or too few replicas answered. `answers`: those of the marks, and the
    number of replicas that have the change.
    """
    *found, has_it = answers
    if has_it < settings.redis_replicas:
        raise _refusal(TOO_FEW, f"{has_it} replicas have it")
    if not all(mark.is_in(each) for mark, each in zip(marks, found, strict=True)):
        raise _refusal(FAILED_OVER, "the job is not as it was left")


class ReplicaWait:
    """Waits until replicas have what was written. Safe to share between threads."""

    def __init__(self, connections: Connections, settings: Settings) -> None:
        self._connections, self._settings = connections, settings

    @property
    def waits(self) -> bool:
        """Whether the setting requires any replica."""
        return self._settings.redis_replicas > 0

    def wait(self, *marks: Mark) -> None:
        """Returns once as many replicas as the setting requires have all changes answered before, provided the current
        server has them. Raises StoreUnavailable.
        """
        if not self.waits:
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
    """The same for one event loop, over a separate connection, because WAIT blocks it. Callers that arrive while a WAIT
    is in progress share the next one.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection: redis.asyncio.Connection | None = None
        self._asking = asyncio.Lock()
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
        """The values of the marks, and the number of replicas that have the change."""
        async with self._asking:
            self._next = None  # changes made from now on are not covered by this answer
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
        """Asks once more if a replica answered, because the address may lead to the primary by now; the marks show
        whether that server has the changes. Without marks it is not asked again, because it might never have had the
        change.
        """
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
