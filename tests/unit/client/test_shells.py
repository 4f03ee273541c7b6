"""The two clients on connections that break off or fall silent."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

from matmul_client import AsyncClient, Busy, Client, DeadlineExceeded, MatmulError, Unreachable
from matmul_client.core.exchange import FIRST_CONTACT_RETRIES
from tests.unit.client.scripted import ACCEPTED, BODY, CANCELLED, HALF, HEAD, SILENCE, WHOLE, keys, scripted

A = np.ones((1, 1), np.float32)
NOBODY = "http://127.0.0.1:1"


def test_a_reply_that_is_cut_off_is_asked_for_again_under_its_key() -> None:
    with scripted(HALF, WHOLE) as server, Client(server.url) as mm:
        assert mm.matmul(A, A) == 1
    assert len(keys(server)) == 2 and len({*keys(server)}) == 1


CHUNKED = HEAD.replace(b"content-length: 4", b"transfer-encoding: chunked")


@pytest.mark.parametrize(
    "cut",
    [
        b"HTTP/1.1 2",
        b"HTTP/1.1 200 OK\r\n",
        HEAD.replace(b"content-length: 4\r\n", b"")[:-2],
        ACCEPTED[:-1],
        b"HTTP/1.1 202 Accepted\r\nlocation: /v1/jobs/jo",
        CHUNKED + b"0",  # of 04
        CHUNKED + b"04\r\n" + BODY + b"\r\n",
    ],
)
def test_a_head_or_a_chunk_that_is_cut_off_is_asked_for_again(cut: bytes) -> None:
    """http.client takes it for a whole one."""

    async def main(url: str) -> None:
        async with AsyncClient(url) as mm:
            assert await mm.matmul(A, A, timeout=30) == 1

    with scripted(cut, WHOLE) as server, Client(server.url) as mm:
        assert mm.matmul(A, A, timeout=30) == 1
    assert len(keys(server)) == 2 and len({*keys(server)}) == 1
    with scripted(cut, WHOLE) as server:
        asyncio.run(main(server.url))
    assert len(keys(server)) == 2


def test_the_same_on_an_event_loop() -> None:
    async def main(url: str) -> None:
        async with AsyncClient(url) as mm:
            assert await mm.matmul(A, A) == 1

    with scripted(HALF, HALF, WHOLE) as server:
        asyncio.run(main(server.url))
    assert len(keys(server)) == 3 and len({*keys(server)}) == 1


def test_silence_ends_with_the_deadline() -> None:
    """The job that may have been made is then asked for by its key, on a short deadline of its own."""
    told = pytest.raises(DeadlineExceeded, match=r"did not end in its 0\.2 s")
    with scripted(SILENCE, ACCEPTED, CANCELLED) as server, Client(server.url) as mm, told:
        mm.matmul(A, A, timeout=0.2)
    assert server.heads[2].startswith(b"POST /v1/jobs/job_1/cancel ")
    assert len({*keys(server)[:2]}) == 1 and b"prefer: respond-async" in server.heads[1].lower()


BUSY = b"HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\n\r\n"
LARGE = np.zeros((2000, 2000))


def connected(server: socket.socket) -> int:
    """How many have connected that nobody has accepted yet."""
    server.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            count += 1
    return count


def test_what_was_not_sent_to_its_end_has_made_no_job() -> None:
    """Asked for by its key, with all of its body, it would make one."""

    async def main(url: str) -> None:
        async with AsyncClient(url, max_retries=1) as mm:
            with pytest.raises(DeadlineExceeded):
                await mm.matmul(LARGE, LARGE, timeout=0.5)

    for client in (Client, AsyncClient):
        with socket.create_server(("127.0.0.1", 0)) as reads_nothing:
            url = f"http://127.0.0.1:{reads_nothing.getsockname()[1]}"
            if client is AsyncClient:
                asyncio.run(main(url))
            else:
                with Client(url, max_retries=1) as mm, pytest.raises(DeadlineExceeded):
                    mm.matmul(LARGE, LARGE, timeout=0.5)
            assert connected(reads_nothing) < 2


def test_what_was_sent_to_its_end_is_asked_for_however_large() -> None:
    async def main(url: str) -> None:
        async with AsyncClient(url, max_retries=1) as mm:
            with pytest.raises(Busy):
                await mm.matmul(LARGE, LARGE)

    told = pytest.raises(Busy)
    with scripted(HALF, BUSY, ACCEPTED, CANCELLED) as server, Client(server.url, max_retries=1) as mm, told:
        mm.matmul(LARGE, LARGE)
    assert server.heads[3].startswith(b"POST /v1/jobs/job_1/cancel ")
    with scripted(HALF, BUSY, ACCEPTED, CANCELLED) as server:
        asyncio.run(main(server.url))
    assert server.heads[3].startswith(b"POST /v1/jobs/job_1/cancel ")


def test_an_event_loop_runs_on_and_a_cancel_is_obeyed() -> None:
    async def main(url: str, asked: asyncio.Event) -> int:
        ticks = 0
        async with AsyncClient(url, max_retries=0) as mm:
            call = asyncio.create_task(mm.matmul(A, A))
            while not asked.is_set():
                ticks += 1
                await asyncio.sleep(0.001)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        return ticks

    with scripted(SILENCE) as server:
        assert asyncio.run(main(server.url, server.asked)) > 0  # type: ignore[arg-type]  # a thread's event


def test_without_retries_a_cut_is_told() -> None:
    """Nothing is retried: without a key a retry would make another job."""
    told = pytest.raises(Unreachable, match="broke off")
    with scripted(HALF, WHOLE) as server, Client(server.url, max_retries=0) as mm, told:
        mm.matmul(A, A)
    assert len(server.heads) == 1 and keys(server) == []


def test_pauses_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """By each in its own way. Where nothing listens, nothing was sent: that is given up after a few tries."""
    blocking: list[float] = []
    awaited: list[float] = []

    async def sleep(seconds: float) -> None:
        awaited.append(seconds)

    async def ask() -> None:
        async with AsyncClient(NOBODY) as mm:
            await mm.kernels()

    monkeypatch.setattr("matmul_client.client.time", SimpleNamespace(sleep=blocking.append))
    monkeypatch.setattr("anyio.sleep", sleep)
    for ending in ("/v1", "/v2/"):
        with pytest.raises(MatmulError, match=f"has a version; leave out {ending.rstrip('/')}"):
            Client(NOBODY + ending)
    with Client(NOBODY) as mm, pytest.raises(Unreachable, match="Is it running"):
        mm.kernels()
    with pytest.raises(Unreachable):
        asyncio.run(ask())
    assert len(blocking) == len(awaited) == FIRST_CONTACT_RETRIES
