"""One child with several products under way, in this process, on a real Redis."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Event, Lock
from typing import Any

import numpy as np
import pytest

from jobs.errors import DeviceFault
from jobs.ledger.interface import Claimed
from jobs.matrices.interface import MatrixWriter
from jobs.models import JobError
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from tests.support.workers.workers import WorkerBench, running_worker
from worker.cpu.runner import CpuRunner
from worker.device.runner import Product
from worker.process.child import Child
from worker.process.lease import LeaseKeeper

TIMEOUT_S = 60.0


@pytest.fixture
def bench(valkey: EmbeddedServer, tmp_path: Path) -> Iterator[WorkerBench]:
    bench = WorkerBench(valkey, tmp_path, overrides={"jobs_under_way": "3", "max_attempts": "3"})
    yield bench
    bench.client.close()


class Watched(CpuRunner):
    """Counts products that have the cores at once, and does something when a product goes into the store."""

    light_extent = 0  # so that each has a thread

    def __init__(self, bench: WorkerBench, when_stored: Callable[[], object] = lambda: None) -> None:
        super().__init__(bench.settings)
        self._lock, self._when_stored = Lock(), when_stored
        self.with_cores = self.most_with_cores = 0

    def _count(self, change: int) -> None:
        with self._lock:
            self.with_cores += change
            self.most_with_cores = max(self.most_with_cores, self.with_cores)

    @contextmanager
    def compute(self, problem: Problem, choice: Choice, *operands: Any, **more: Any) -> Iterator[Product]:
        with super().compute(problem, choice, *operands, **more) as product:
            self._count(1)
            store, end = product.store, product.device_lock.release

            def ended() -> None:
                self._count(-1)
                end()

            def stored(writer: MatrixWriter) -> None:
                self._when_stored()
                store(writer)

            product.store, product.device_lock.release = stored, ended  # type: ignore[method-assign]
            yield product


def child_of(bench: WorkerBench, runner: CpuRunner) -> Child:
    return Child(bench.settings, runner, bench.ledger, bench.store)


def assert_right(bench: WorkerBench, job_id: str, depth: int) -> None:
    job = bench.ledger.get(job_id)
    np.testing.assert_array_equal(bench.product(job), np.full((3, 4), depth, np.float32))


def test_products_are_stored_while_others_are_computed(bench: WorkerBench) -> None:
    """None is stored before all three are: one after the other they would wait for ever."""
    meeting = Barrier(3)
    runner = Watched(bench, lambda: meeting.wait(TIMEOUT_S))
    child = child_of(bench, runner)
    ids = [bench.of_depth(depth) for depth in (3, 4, 5)]
    for job_id in ids:
        child.run(job_id, 1)
    child.wait_until_idle()
    for depth, job_id in enumerate(ids, 3):
        assert_right(bench, job_id, depth)
    assert runner.most_with_cores == 1


def test_free_threads_take_jobs_that_wait(bench: WorkerBench) -> None:
    """One message is enough for three; a fourth waits for its own."""
    meeting = Barrier(3)
    child = child_of(bench, Watched(bench, lambda: meeting.wait(TIMEOUT_S)))
    ids = [bench.of_depth(depth) for depth in (3, 4, 5, 6)]
    child.run(ids[1], 1)
    child.wait_until_idle()
    states = [bench.ledger.get(job_id).record.state for job_id in ids]
    assert states == [*[JobState.SUCCEEDED] * 3, JobState.QUEUED]
    for depth, job_id in enumerate(ids[:3], 3):
        assert_right(bench, job_id, depth)
    child.run(ids[0], 1)
    assert bench.ledger.get(ids[0]).version == 3, "its message came late, and was taken out besides"


def test_what_was_tried_before_is_under_way_alone(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = bench.of_depth(3), bench.of_depth(4)
    bench.ledger.claim(first, 1, worker="w", lease_s=1)
    error = DeviceFault()
    bench.ledger.fail(first, 1, JobError(type=error.type, detail=error.detail), max_attempts=3)
    claimed, met = Event(), []
    child = child_of(bench, Watched(bench, lambda: met.append(claimed.wait(0.5))))
    child.run(second, 1)
    claim = bench.ledger.claim_batch

    def watched(*args: Any, **kwargs: Any) -> Sequence[Claimed]:
        claimed.set()
        return claim(*args, **kwargs)

    monkeypatch.setattr(bench.ledger, "claim_batch", watched)
    child.run(first, 2)
    assert met == [False, True], "the second was in the store before the first was claimed"
    assert bench.ledger.get(first).record.state is JobState.SUCCEEDED, "it was done when `run` returned"


def test_a_fault_hands_the_others_back(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run again, and are right; the process would have ended."""
    ended: list[int] = []
    meeting = Barrier(2)
    stored: list[int] = []

    def fault() -> None:
        stored.append(1)
        number = len(stored)
        meeting.wait(TIMEOUT_S)
        if number == 1:
            raise DeviceFault
        meeting.wait(TIMEOUT_S)  # until the fault has been recorded

    def end_child(keeper: LeaseKeeper, code: int, reason: str) -> None:
        monkeypatch.setattr(keeper, "_end", ended.append)
        end(keeper, code, reason)
        meeting.wait(TIMEOUT_S)

    end = LeaseKeeper.end_child
    monkeypatch.setattr(LeaseKeeper, "end_child", end_child)
    child = child_of(bench, Watched(bench, fault))
    ids = [bench.of_depth(depth) for depth in (3, 4)]
    for job_id in ids:
        child.run(job_id, 1)
    child.wait_until_idle()
    assert len(ended) == 1
    records = [bench.ledger.get(job_id).record for job_id in ids]
    assert [(record.state, record.attempt) for record in records] == [(JobState.QUEUED, 2)] * 2
    again = child_of(bench, Watched(bench))
    for job_id in ids:
        again.run(job_id, 2)
    for depth, job_id in enumerate(ids, 3):
        assert_right(bench, job_id, depth)


def test_a_worker_that_is_told_to_stop_ends_what_is_under_way(valkey: EmbeddedServer, tmp_path: Path) -> None:
    with running_worker(valkey, tmp_path, overrides={"jobs_under_way": "3"}) as bench:
        a = np.ones((1500, 1500), np.float64)
        ids = [bench.submit(a, a, "float64") for _ in range(3)]
        bench.until_state(ids[0], JobState.RUNNING, JobState.SUCCEEDED)
        assert bench.process is not None
        bench.process.send_signal(signal.SIGTERM)
        bench.process.wait(TIMEOUT_S)
        states = [bench.ledger.get(job_id).record.state for job_id in ids]
        assert JobState.RUNNING not in states and JobState.SUCCEEDED in states, states
