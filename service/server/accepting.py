"""How the API processes share listening sockets: all wait on the same sockets, and the process with the fewest open
connections accepts the next one. A connection that is not accepted yet belongs to no process, so it survives the death
of any.
"""

from __future__ import annotations

import asyncio
import errno
import mmap
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog

COUNT_BYTES = 8
NONE_ACCEPTED = 2**64 - 1  # the count of a process that does not accept connections
YIELD_S = 0.005  # delay that gives a process with fewer connections time to accept; it may be busy or dead
START_TOGETHER_S, START_LOOK_S = 5.0, 0.01
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
EXHAUSTED_S = 1.0
BACKLOG = 2048

log = structlog.get_logger()


def make_counts_file(processes: int) -> int:
    """A file descriptor of shared memory in which `processes` processes count their connections, for them to
    inherit.
    """
    made = os.memfd_create("matmul-connections")
    os.write(made, b"\xff" * (COUNT_BYTES * processes))  # NONE_ACCEPTED for each
    return made


class ConnectionCounts:
    """The number of open connections of each API process. The others' counts are a hint: a dead process leaves its last
    count.
    """

    def __init__(self, memory: memoryview, index: int) -> None:
        self._counts = memory.cast("Q")
        self._index = index
        self._accepts = True

    @classmethod
    def alone(cls) -> ConnectionCounts:
        return cls(memoryview(bytearray(COUNT_BYTES)), 0)

    @classmethod
    def inherited(cls, file: int, index: int) -> ConnectionCounts:
        """The counts of process `index`, in the memory made by `make_counts_file`."""
        return cls(memoryview(mmap.mmap(file, 0)), index)

    def tell(self, connections: int) -> None:
        if self._accepts:
            self._counts[self._index] = connections

    def leave(self) -> None:
        """Marks this process as not accepting any more."""
        self.tell(NONE_ACCEPTED)
        self._accepts = False

    async def all_there(self) -> None:
        """Returns when all processes have started, so that the first one does not get all connections that arrive then;
        at the latest after START_TOGETHER_S, because one may be unable to start.
        """
        deadline = time.monotonic() + START_TOGETHER_S
        while NONE_ACCEPTED in self._counts and time.monotonic() < deadline:
            await asyncio.sleep(START_LOOK_S)

    @property
    def suffices(self) -> bool:
        """Whether another process should accept the next, because it has fewer connections by one, or by an eighth."""
        fewest = min(self._counts)
        return self._counts[self._index] > fewest + fewest // 8


class OpenConnections(set[Any]):
    """uvicorn's set of open connections, which also publishes its size to the other processes."""

    def __init__(self, counts: ConnectionCounts) -> None:
        super().__init__()
        self._counts = counts
        counts.tell(0)

    def add(self, protocol: Any) -> None:
        super().add(protocol)
        self._counts.tell(len(self))

    def discard(self, protocol: Any) -> None:
        super().discard(protocol)
        self._counts.tell(len(self))


class Acceptor:
    """Accepts connections on bound sockets from its creation until `close`. Needs a running event loop."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        counts: ConnectionCounts,
        make_protocol: Callable[[], asyncio.Protocol],
    ) -> None:
        self._counts = counts
        self._make_protocol = make_protocol
        for each in sockets:
            each.setblocking(False)
            each.listen(BACKLOG)
        self._tasks = [asyncio.create_task(self._accept_all(each)) for each in sockets]

    async def close(self) -> None:
        """Stops accepting. Connections not accepted yet are left to the other processes."""
        self._counts.leave()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def _accept_all(self, listening: socket.socket) -> None:
        while True:
            await _until_readable(listening)
            if self._counts.suffices:
                await asyncio.sleep(YIELD_S)
            try:
                connection, _ = listening.accept()
            except OSError as error:
                await _explain(error)
            else:
                await self._open(connection)

    async def _open(self, connection: socket.socket) -> None:
        """Opens a connection completely, so that it is counted before the next one is accepted."""
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._make_protocol, connection)
        except OSError:  # the client has left
            connection.close()


async def _explain(error: OSError) -> None:
    """Logs an error, unless another process was faster or the client has disconnected."""
    if error.errno in EXHAUSTED:
        log.error("no connection can be accepted", error=error.strerror)
        await asyncio.sleep(EXHAUSTED_S)


async def _until_readable(listening: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(listening, _set, readable)
    try:
        await readable
    finally:
        loop.remove_reader(listening)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
