"""Requests that are called off, as those that outlast a shutdown are, while a thread works for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any, cast

import pytest

from service.api_process.body_memory import BodyMemory
from service.api_process.in_thread import in_thread
from service.api_process.work_threads import WorkThreads
from service.bodies.body import Body
from service.bodies.reader import Reader
from service.bodies.receive import receive
from service.bodies.uploads import UploadSet
from service.context import Context
from service.http.representations import _read_ahead

pytestmark = pytest.mark.anyio


class SlowReader(Reader[int]):
    """Its step `slow` takes until `goes_on`."""

    def __init__(self, slow: str) -> None:
        self._slow, self._is_at_work = slow, False
        self.began, self.goes_on = Event(), Event()
        self.closed_at_work = False

    def _step(self, name: str) -> None:
        if name == self._slow:
            self._is_at_work = True
            self.began.set()
            assert self.goes_on.wait(60)
            self._is_at_work = False

    def feed(self, data: object) -> None:
        self._step("feed")

    def finish(self) -> int:
        self._step("finish")
        return 0

    def close(self) -> None:
        self.closed_at_work = self._is_at_work


class OpenUploads:
    """Behaves like uploads of which one has begun to store a matrix."""

    is_open = True

    def __init__(self, reader: SlowReader) -> None:
        self._reader = reader
        self.aborted = False

    def abort(self) -> None:
        assert self._reader.goes_on.is_set(), "its thread still writes"
        self.aborted = True


class Threads:
    """What `receive` needs of a context."""

    bodies = BodyMemory()

    async def call(self, work: Callable[..., Any], *args: object) -> Any:
        return await in_thread(lambda: work(*args), WorkThreads(1))


@pytest.mark.parametrize("slow", ["feed", "finish"])
async def test_one_that_is_called_off_waits_for_its_thread_and_leaves_nothing(slow: str) -> None:
    reader = SlowReader(slow)
    uploads, pieces = OpenUploads(reader), iter([True, True, False])

    async def come() -> dict[str, Any]:
        return {"type": "http.request", "body": bytes(128 << 10), "more_body": next(pieces)}

    body = Body({"type": "http", "headers": [(b"transfer-encoding", b"chunked")]}, cast(Any, come), limit_bytes=1 << 20)
    receiving = asyncio.create_task(
        receive(cast(Context, Threads()), body, reader, cast(UploadSet, uploads), lambda read: read)
    )
    await asyncio.to_thread(reader.began.wait, 60)
    for _ in range(3):
        receiving.cancel()
        await asyncio.sleep(0.01)
        assert not receiving.done() and not uploads.aborted
    reader.goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await receiving
    assert uploads.aborted and not reader.closed_at_work


async def test_what_waits_for_a_thread_is_called_off_at_once() -> None:
    threads, ran, goes_on = WorkThreads(1), [], Event()
    first = asyncio.create_task(in_thread(lambda: goes_on.wait(60), threads))
    second = asyncio.create_task(in_thread(lambda: ran.append(1), threads))
    await asyncio.sleep(0.01)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    goes_on.set()
    assert await first and not ran


async def test_a_reply_that_is_called_off_waits_for_its_reader() -> None:
    """What reads the pieces can be closed then."""
    began, goes_on = Event(), Event()

    def read() -> Iterator[bytes]:
        yield b"first"
        began.set()
        assert goes_on.wait(60)
        yield b"second"

    pieces = read()

    async def send() -> None:
        async for _ in _read_ahead(pieces):
            pass

    sending = asyncio.create_task(send())
    await asyncio.to_thread(began.wait, 60)
    sending.cancel()
    await asyncio.sleep(0.01)
    assert not sending.done()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await sending
    cast(Any, pieces).close()
