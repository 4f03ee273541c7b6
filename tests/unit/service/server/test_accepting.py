"""How API processes share connections: each is an acceptor here, on sockets and counts that they really share."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from service.server import accepting
from service.server.accepting import Acceptor, ConnectionCounts, OpenConnections, make_counts_file

CLIENTS = 40


class Kept(asyncio.Protocol):
    """A connection, among those of its process."""

    def __init__(self, opened: OpenConnections) -> None:
        self._opened = opened

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._opened.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._opened.discard(self)


class Process:
    """What an API process has of connections."""

    def __init__(self, listening: socket.socket, counts: ConnectionCounts) -> None:
        self.opened = OpenConnections(counts)
        self.counts = counts
        self._listening = listening.dup()
        self.acceptor = Acceptor([self._listening], counts, lambda: Kept(self.opened))

    async def stop(self) -> None:
        await self.acceptor.close()
        self._listening.close()
        for each in list(self.opened):
            each.transport.abort()


@asynccontextmanager
async def processes(count: int) -> AsyncIterator[tuple[socket.socket, list[Process]]]:
    file = make_counts_file(count)
    async with AsyncExitStack() as stack:
        stack.callback(os.close, file)
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        made = [Process(listening, ConnectionCounts.inherited(file, index)) for index in range(count)]
        for each in made:
            stack.push_async_callback(each.stop)
        yield listening, made


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def connect(stack: AsyncExitStack, listening: socket.socket, count: int) -> list[asyncio.StreamWriter]:
    writers = [(await asyncio.open_connection(*listening.getsockname()))[1] for _ in range(count)]
    for writer in writers:
        stack.callback(writer.close)
    return writers


def test_connections_are_spread_evenly() -> None:
    async def run() -> None:
        async with processes(4) as (listening, made), AsyncExitStack() as stack:
            await connect(stack, listening, CLIENTS)
            await until(lambda: sum(len(each.opened) for each in made) == CLIENTS)
            counts = [len(each.opened) for each in made]
            assert max(counts) - min(counts) <= 3, counts

    asyncio.run(run())


def test_the_process_with_fewest_connections_accepts_the_next() -> None:
    async def run() -> None:
        async with processes(2) as (listening, (one, two)), AsyncExitStack() as stack:
            await connect(stack, listening, 6)
            await until(lambda: len(one.opened) + len(two.opened) == 6)
            for each in list(one.opened):
                each.transport.close()
            await until(lambda: not one.opened)
            before = len(two.opened)
            await connect(stack, listening, before - 1)
            await until(lambda: len(one.opened) + len(two.opened) == 2 * before - 1)
            assert len(two.opened) <= before + 1

    asyncio.run(run())


def test_a_process_that_hangs_or_died_is_not_waited_for_long() -> None:
    async def run() -> None:
        async with processes(2) as (listening, (dead, alive)), AsyncExitStack() as stack:
            for task in dead.acceptor._tasks:
                task.cancel()  # its count stays: none
            await connect(stack, listening, 5)
            await until(lambda: len(alive.opened) == 5)

    asyncio.run(run())


def test_a_stopping_process_leaves_connections_to_the_others() -> None:
    async def run() -> None:
        async with processes(2) as (listening, (stopped, other)), AsyncExitStack() as stack:
            await stopped.stop()
            await until(lambda: not stopped.opened)
            await connect(stack, listening, 3)
            await until(lambda: len(other.opened) == 3)
            assert not other.counts.suffices

    asyncio.run(run())


def test_none_begins_before_all_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        file = make_counts_file(2)
        one, two = (ConnectionCounts.inherited(file, index) for index in range(2))
        os.close(file)
        one.tell(0)
        waiting = asyncio.create_task(one.all_there())
        await asyncio.sleep(0)
        assert not waiting.done()
        two.tell(0)
        await asyncio.wait_for(waiting, 60)
        two.leave()
        monkeypatch.setattr(accepting, "START_TOGETHER_S", 0.0)
        await one.all_there()  # that one may never come

    asyncio.run(run())
