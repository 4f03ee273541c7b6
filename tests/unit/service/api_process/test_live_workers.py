"""The live workers that an API process keeps at hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from jobs.errors import StoreUnavailable
from service.api_process import live_workers
from service.api_process.live_workers import LiveWorkers


async def in_this_thread(work: Callable[[], None]) -> None:
    work()


async def until(holds: Callable[[], bool], *, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


class Reads:
    """Counts how often workers were read; there are none."""

    def __init__(self) -> None:
        self.count = 0
        self.fails = False

    def __call__(self) -> list[object]:
        self.count += 1
        if self.fails:
            raise StoreUnavailable
        return []


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_workers, "READ_EVERY_S", 0.01)


def watched(work: Callable[[LiveWorkers, Reads], Awaitable[None]]) -> None:
    reads = Reads()
    workers = LiveWorkers(reads)  # type: ignore[arg-type]  # none of them is looked at

    async def run() -> None:
        await work(workers, reads)
        await workers.close()

    asyncio.run(run())


def test_nobody_reads_what_nobody_asks_for() -> None:
    async def work(workers: LiveWorkers, reads: Reads) -> None:
        assert workers.fresh() is None
        await asyncio.sleep(0.03)
        assert reads.count == 0

    watched(work)


def test_they_are_read_again_and_again_while_they_are_asked_for() -> None:
    async def work(workers: LiveWorkers, reads: Reads) -> None:
        workers.keep_fresh(in_this_thread)
        assert workers.fresh() is None
        await until(lambda: reads.count >= 3)
        await until(lambda: workers.fresh() is not None)

    watched(work)


def test_it_ends_some_time_after_the_last_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_workers, "KEPT_S", 0.05)

    async def work(workers: LiveWorkers, reads: Reads) -> None:
        workers.keep_fresh(in_this_thread)
        assert workers.fresh() is None
        keeping = workers._keeping
        assert keeping is not None
        await asyncio.wait_for(keeping, 20.0)
        workers.keep_fresh(in_this_thread)
        assert workers._keeping is not keeping, "another question has them read again"

    watched(work)


def test_what_cannot_be_read_is_not_fresh() -> None:
    async def work(workers: LiveWorkers, reads: Reads) -> None:
        reads.fails = True
        workers.keep_fresh(in_this_thread)
        workers.fresh()
        await until(lambda: reads.count >= 2)
        assert workers.fresh() is None
        reads.fails = False
        await until(lambda: workers.fresh() is not None)

    watched(work)
