"""The hub that wakes those who wait for a job."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from service import changes
from service.changes import ChangeHub, Watch
from tests.support.servers import DURABLE

pytestmark = pytest.mark.anyio
JOB = "job_" + "1" * 32
TIMEOUT_S = 60.0
ANSWER_S = 5.0  # on a busy machine the server, or this process, may not have its turn for a while


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def listening(url: str, prefix: str, *, answer_s: float = ANSWER_S) -> AsyncIterator[ChangeHub]:
    """`answer_s`: how long a server that is asked may be silent."""
    hub = ChangeHub(Settings(redis_url=SecretStr(url), key_prefix=prefix, redis_timeout_s=answer_s))
    task = asyncio.create_task(hub.run())
    await come_true(lambda: hub.listening)
    try:
        yield hub
    finally:
        hub.close()
        async with asyncio.timeout(TIMEOUT_S):
            await task


async def come_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.01)


def publish(server: EmbeddedServer, prefix: str, message: str) -> None:
    with server.client() as client:
        client.publish(f"{prefix}changes", message)


async def all_hear(hub: ChangeHub, *watches: Watch) -> None:
    """Until the changes are heard, and these were woken for that."""
    await come_true(lambda: hub.hears(watches[0]))
    for watch in watches:
        assert await watch.change(5)


async def test_changes_are_heard_only_while_someone_wants_them(
    valkey: EmbeddedServer, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "SILENCE_S", 0.05)
    channel = f"{key_prefix}changes"
    async with listening(valkey.url, key_prefix) as hub:
        with valkey.client() as client:

            def listeners() -> int:
                return int(dict(client.pubsub_numsub(channel))[channel.encode()])

            for _ in range(2):
                with hub.watch("job_2", answers_only=True):
                    assert listeners() == 0
                    with hub.watch(JOB) as watch:
                        await all_hear(hub, watch)
                        assert listeners() == 1
                    await come_true(lambda: listeners() == 0)


async def test_only_the_jobs_own_changes_wake(valkey: EmbeddedServer, key_prefix: str) -> None:
    async with listening(valkey.url, key_prefix) as hub:
        with hub.watch(JOB) as every, hub.watch(JOB, ends_only=True) as ends, hub.watch("job_2") as other:
            await all_hear(hub, every, ends, other)
            publish(valkey, key_prefix, f"{JOB} 2 running")
            assert await every.change(5)
            assert not await ends.change(0.05)
            publish(valkey, key_prefix, f"{JOB} 3 failed")
            assert await ends.change(5)
            assert not await other.change(0.05)


@pytest.mark.parametrize("answer", [b"\0", b"\xff" * 9, b"\x02\x00\x00\x00id\x01\x00\x00\x00x\x00\x00\x00\x00"])
async def test_an_answer_that_cannot_be_read_does_not_make_it_deaf(
    valkey: EmbeddedServer, key_prefix: str, answer: bytes
) -> None:
    """As of a worker of another version: its caller hears that the job ended, and looks for itself."""
    async with listening(valkey.url, key_prefix) as hub:
        with hub.watch(JOB, answers_only=True) as watch, valkey.client() as client:
            client.publish(f"{key_prefix}answers:{hub.name}", answer)
            assert await watch.change(5)
            assert watch.answer is None and hub.listening


async def test_a_change_before_the_wait_counts(valkey: EmbeddedServer, key_prefix: str) -> None:
    async with listening(valkey.url, key_prefix) as hub:
        with hub.watch(JOB) as early, hub.watch(JOB) as marker:
            await all_hear(hub, early, marker)
            publish(valkey, key_prefix, f"{JOB} 1 queued")
            assert await marker.change(5)
            assert await early.change(0)
            assert not await early.change(0.05)


async def test_silence_alone_does_not_make_it_deaf(
    valkey: EmbeddedServer, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "SILENCE_S", 0.05)
    async with listening(valkey.url, key_prefix) as hub:
        until = asyncio.get_running_loop().time() + 1.5  # several questions, each of which is answered
        while asyncio.get_running_loop().time() < until:
            assert hub.listening
            await asyncio.sleep(0.01)


async def test_while_it_is_deaf_waiters_look_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "POLL_S", 0.05)
    hub = ChangeHub(Settings())
    with hub.watch(JOB, ends_only=True) as watch:
        assert await watch.change(5)
        assert not await watch.change(0.01)


async def test_closing_sends_all_home(valkey: EmbeddedServer, key_prefix: str) -> None:
    async with listening(valkey.url, key_prefix) as hub:
        with hub.watch(JOB) as watch:
            waiting = asyncio.create_task(watch.change(30))
            await asyncio.sleep(0)
            hub.close()
            assert await waiting is False
            assert await watch.change(30) is False


async def test_it_comes_back_after_silence_and_death(
    key_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen server is found out by asking; one that died, by its connection. What was missed is looked up."""
    monkeypatch.setattr(changes, "SILENCE_S", 0.2)
    server = EmbeddedServer(tmp_path, options=DURABLE)
    server.start()
    try:
        async with listening(server.url, key_prefix, answer_s=0.3) as hub:
            with hub.watch(JOB, ends_only=True) as watch:
                os.kill(server.pid, signal.SIGSTOP)
                await come_true(lambda: not hub.listening)
                os.kill(server.pid, signal.SIGCONT)
                await come_true(lambda: hub.listening)
                assert await watch.change(0)
                server.kill()
                await come_true(lambda: not hub.listening)
                server.start()
                await come_true(lambda: hub.listening)
                assert await watch.change(0)
                publish(server, key_prefix, f"{JOB} 3 succeeded")
                assert await watch.change(5)
    finally:
        server.stop()
