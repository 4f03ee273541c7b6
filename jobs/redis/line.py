"""Runs scripts over one connection of an event loop and pipelines concurrent calls. A thread with its own connection
would cost more than a small script does. Here a single call is sent at once, and calls that arrive while others wait
are sent together: one write and one read.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis

from jobs.errors import StoreUnavailable
from jobs.redis.client import CONNECTION_LOST, connect_alone, translated, unavailable
from jobs.redis.connections import packed
from jobs.redis.scripts import RedisScripts
from jobs.redis.written import WrittenQuestion
from jobs.settings import Settings

JOINED = ("submit",)  # one call does for several: all arguments except the last two in sequence; one reply for each
MAX_JOINED = 32  # so that no script blocks Redis for long
BEGAN_ANEW = (
    "The job store may have begun anew before it had written this to its disk; try again with the same Idempotency-Key."
)
IDLE_S = 0.05  # a connection idle for so long may have been closed from the other side


@dataclass(slots=True)
class _Call:
    script: str
    arguments: tuple[str | bytes | int, ...]
    reply: asyncio.Future[Any]


class ScriptLine:
    """For one event loop. `scripts` are those that `run` can call."""

    def __init__(self, settings: Settings, scripts: RedisScripts) -> None:
        self._settings = settings
        self._scripts = scripts
        self._connection: redis.asyncio.Connection | None = None
        self._used_at = 0.0
        self._opened = 0
        self._waiting: list[_Call] = []
        self._sending: asyncio.Task[None] | None = None

    async def run(self, script: str, *arguments: str | bytes | int) -> Any:
        """The script's reply. Only a call that a replica refused is sent again; one without an answer may have been
        carried out.

        Raises StoreUnavailable, StoreFull."""
        with translated():
            return await self._call(script, *arguments).reply

    async def written(self) -> None:
        """Returns once all changes that Redis answered before are in its append-only file. Raises StoreUnavailable,
        also if Redis may have begun anew meanwhile, which knows nothing of changes that it lost.
        """
        question = WrittenQuestion()
        pause_s = question.pause_s(await self._ask_written())
        opened = self._opened
        while pause_s is not None:
            await asyncio.sleep(pause_s)
            pause_s = question.pause_s(await self._ask_written())
            if self._opened != opened:
                raise StoreUnavailable(BEGAN_ANEW)

    async def _ask_written(self) -> Any:
        """All who ask before it is sent share one reply. It is sent first: changes of the same exchange would be found
        unwritten.
        """
        waiting = [call for call in self._waiting if call.script == "written"]
        call = waiting[0] if waiting else self._call("written", first=True)
        with translated():
            return await asyncio.shield(call.reply)

    def _call(self, script: str, *arguments: str | bytes | int, first: bool = False) -> _Call:
        call = _Call(script, arguments, asyncio.get_running_loop().create_future())
        self._waiting.insert(0 if first else len(self._waiting), call)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        return call

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.disconnect(nowait=True)

    async def _send(self) -> None:
        """Sends calls until none waits."""
        try:
            while self._waiting:
                calls, self._waiting = self._waiting, []
                await self._exchange(calls)
        finally:
            self._sending = None

    async def _exchange(self, calls: Sequence[_Call]) -> None:
        try:
            async with asyncio.timeout(self._settings.redis_timeout_s):
                joined = _joined(calls)
                answers = await self._of_primary([asked for asked, _ in joined])
                parted = (_parted(answer, *each) for answer, each in zip(answers, joined, strict=True))
                replies = [reply for each in parted for reply in each]
        except CONNECTION_LOST as error:
            await self.close()
            replies = [unavailable(error) for _ in calls]
        for call, reply in zip(calls, replies, strict=True):
            if call.reply.done():  # its caller went away
                continue
            if isinstance(reply, Exception):
                call.reply.set_exception(reply)
            else:
                call.reply.set_result(reply)

    async def _of_primary(self, asked: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The answers to the commands. A command that a replica refused changed nothing and is sent once more over a
        new connection, because the address may lead to the primary by now.
        """
        answers = await self._answers(asked)
        refused = [i for i, answer in enumerate(answers) if isinstance(answer, redis.exceptions.ReadOnlyError)]
        if refused:
            await self.close()
            for i, answer in zip(refused, await self._answers([asked[i] for i in refused]), strict=True):
                answers[i] = answer
            if any(isinstance(answers[i], redis.exceptions.ReadOnlyError) for i in refused):
                await self.close()
        return answers

    async def _answers(self, asked: Sequence[tuple[Any, ...]]) -> list[Any]:
        answers = await self._ask([self._scripts.command(*each) for each in asked])
        await self._load(answers)
        for i, each in enumerate(asked):
            if self._scripts.is_unknown(answers[i]):  # as after a restart
                (answers[i],) = await self._ask([self._scripts.command(*each, whole=True)])
        return answers

    async def _load(self, replies: Sequence[Any]) -> None:
        """Loads the library of functions if one was not found."""
        functions = self._scripts.functions
        if functions is None or not any(functions.is_missing(reply) for reply in replies):
            return
        is_forbidden = any(functions.is_forbidden(reply) for reply in replies)
        if is_forbidden or any(isinstance(reply, Exception) for reply in await self._ask(functions.loading())):
            functions.disable()

    async def _ask(self, commands: Sequence[tuple[str | bytes | int, ...]]) -> list[Any]:
        """One reply for each command; an error reply counts as one."""
        connection = await self._connected()
        await connection.send_packed_command(b"".join(map(packed, commands)))
        replies: list[Any] = []
        for _ in commands:
            try:
                replies.append(await connection.read_response(timeout=math.inf))
            except redis.ResponseError as refusal:
                replies.append(refusal)
        self._used_at = asyncio.get_running_loop().time()
        return replies

    async def _connected(self) -> redis.asyncio.Connection:
        if self._connection is None:
            self._connection = connect_alone(self._settings)
        connection = self._connection
        was_idle = asyncio.get_running_loop().time() - self._used_at > IDLE_S
        if connection.is_connected and was_idle and await connection.can_read():  # nothing was asked, so it is the end
            await connection.disconnect(nowait=True)
        if not connection.is_connected:
            await connection.connect()  # type: ignore[no-untyped-call]
            self._opened += 1
        return connection


def _joined(calls: Sequence[_Call]) -> list[tuple[tuple[Any, ...], int]]:
    """The commands for these calls, in order: script, arguments, and the number of calls that each command serves."""
    joined: list[tuple[list[Any], int]] = []
    for call in calls:
        last, of = joined[-1] if joined else ([""], 0)
        if call.script in JOINED and last[0] == call.script and of < MAX_JOINED:
            joined[-1] = ([*last[:-2], *call.arguments], of + 1)
        else:
            joined.append(([call.script, *call.arguments], 1))
    return [(tuple(asked), of) for asked, of in joined]


def _parted(answer: Any, asked: tuple[Any, ...], of: int) -> Sequence[Any]:
    """Splits the answer to a joined command into one answer per call."""
    if asked[0] not in JOINED or isinstance(answer, Exception):
        return [answer] * of
    parts: Sequence[Any] = answer
    return parts
