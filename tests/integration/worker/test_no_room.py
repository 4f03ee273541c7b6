"""A store or a Redis that is full for a while, or a disk that fails: no job fails of it.

One child, in this process, on a real Redis.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jobs.disk import UNUSABLE
from jobs.errors import MatmulError, MatrixNotFound, StoreFull, StoreUnavailable
from jobs.matrices.index import Bounds
from jobs.models import product_id
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from tests.support.ledger.ledgers import new_job
from tests.support.workers.workers import WorkerBench
from worker.cpu.runner import CpuRunner
from worker.device import retry
from worker.process import ends as ends_module
from worker.process.child import Child

TWO_DAYS_US = 2 * 86_400_000_000
A = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(params=["file", "redis"])
def bench(request: pytest.FixtureRequest, own_server: EmbeddedServer, tmp_path: Path) -> Iterator[WorkerBench]:
    bench = WorkerBench(own_server, tmp_path, overrides={"store": request.param, "max_attempts": "1"})
    yield bench
    bench.client.close()


@pytest.fixture
def child(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    monkeypatch.setattr(ends_module, "NO_ROOM_PAUSE_S", 0.01)
    child = Child(bench.settings, CpuRunner(bench.settings), bench.ledger, bench.store)
    yield child
    child.heartbeat.stop()


def run(child: Child, job_id: str, attempt: int) -> None:
    child.run(job_id, attempt)
    child.wait_until_idle()


def test_redis_without_memory_fails_no_job(bench: WorkerBench, child: Child) -> None:
    """A product in files needs a few bytes of books, which the end of a job may have all the same."""
    is_kept_elsewhere, attempt = bench.settings.store == "file", 1
    job_id = bench.submit(A, A.T)
    with bench.server.client() as client:
        client.config_set("maxmemory", "1mb")
        while attempt < 4 and not is_kept_elsewhere:
            run(child, job_id, attempt)
            attempt += 1
            record = bench.ledger.get(job_id).record
            assert (record.state, record.attempt) == (JobState.QUEUED, attempt)
        if is_kept_elsewhere:
            run(child, job_id, 1)
        client.config_set("maxmemory", "0")
    if not is_kept_elsewhere:
        run(child, job_id, attempt)
    np.testing.assert_array_equal(bench.product(bench.ledger.get(job_id)), A @ A.T)


def test_a_product_over_the_bounds_goes_again_and_leaves_nothing(
    bench: WorkerBench, child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, used = bench.submit(A, A.T), bench.store.used_bytes()
    with monkeypatch.context() as full:
        full.setattr(bench.ledger, "_bounds", Bounds(all_bytes=used, owner_bytes=used))
        run(child, job_id, 1)
    record = bench.ledger.get(job_id).record
    assert (record.state, record.attempt, bench.store.used_bytes()) == (JobState.QUEUED, 2, used)
    with pytest.raises(MatrixNotFound), bench.store.open(product_id(job_id, 1), "float32", (3, 3)):
        pass
    run(child, job_id, 2)
    np.testing.assert_array_equal(bench.product(bench.ledger.get(job_id)), A @ A.T)


@pytest.mark.parametrize("bench", ["file"], indirect=True)
@pytest.mark.parametrize("error", [StoreFull(), StoreUnavailable(UNUSABLE, resource="disk")])
def test_others_go_on_while_a_job_finds_no_room(
    bench: WorkerBench, child: Child, error: MatmulError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker and its device are free in between."""
    without_room, small = bench.submit(A, A.T), bench.submit(A, A.T.copy(), in_record=True)

    def full(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as disk:
        disk.setattr(bench.store, "create", full)
        run(child, without_room, 1)
        run(child, small, 1)
    assert bench.ledger.get(small).record.state is JobState.SUCCEEDED
    assert bench.ledger.get(without_room).record.state is JobState.QUEUED
    run(child, without_room, 2)
    assert bench.ledger.get(without_room).record.state is JobState.SUCCEEDED


@pytest.mark.parametrize("bench", ["file"], indirect=True)
def test_redis_clock_that_is_set_does_not_end_the_search_for_room(
    bench: WorkerBench, child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward by two days, as it looks to a job whose start lies so far back."""
    job_id = bench.submit(A, A.T)
    key = f"{bench.settings.key_prefix}job:{job_id}"

    def full(*_: Any, **__: Any) -> None:
        with bench.server.client() as client:
            for name in ("queued", "started", "no_room_since"):
                if client.hexists(key, name):
                    client.hincrby(key, name, -TWO_DAYS_US)
        raise StoreFull

    monkeypatch.setattr(bench.store, "create", full)
    for attempt in (1, 2, 3):
        run(child, job_id, attempt)
        assert bench.ledger.get(job_id).record.state is JobState.QUEUED


@pytest.mark.parametrize("bench", ["file"], indirect=True)
def test_a_job_that_looks_for_room_can_be_cancelled(
    bench: WorkerBench, child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = bench.submit(A, A.T)

    def full(*_: Any, **__: Any) -> None:
        bench.ledger.cancel(job_id)
        raise StoreFull

    monkeypatch.setattr(ends_module, "NO_ROOM_PAUSE_S", 60.0)
    monkeypatch.setattr(bench.store, "create", full)
    run(child, job_id, 1)
    assert bench.ledger.get(job_id).record.state is JobState.CANCELLED


@pytest.mark.parametrize("bench", ["file"], indirect=True)
def test_a_key_without_room_holds_up_no_other_key(
    bench: WorkerBench, child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jobs come again every half second at most, unless others wait meanwhile."""
    slept: list[float] = []
    monkeypatch.setattr(retry, "time", SimpleNamespace(sleep=slept.append, monotonic=lambda: sum(slept)))
    monkeypatch.setattr(ends_module, "NO_ROOM_PAUSE_S", 0.5)
    jobs = [new_job("alice") for _ in range(3)]
    for job in jobs:
        bench.ledger.submit(job, max_queued=9, max_queued_per_owner=9)
    claimed = bench.ledger.claim(jobs[0].id, 1, worker="w", lease_s=60)
    assert claimed is not None

    def paused() -> float:
        slept.clear()
        child._ends.pause_without_room([claimed])
        return sum(slept)

    assert paused() == pytest.approx(0.5)
    other = new_job("bob")
    bench.ledger.submit(other, max_queued=9, max_queued_per_owner=9)
    assert paused() == pytest.approx(0.05)
    assert bench.ledger.claim(other.id, 1, worker="w", lease_s=60) is not None
    assert paused() == pytest.approx(0.5)
