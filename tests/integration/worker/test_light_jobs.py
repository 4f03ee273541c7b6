"""Light products of stored operands that wait together: one claim, one after the other, their ends in few steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis
from structlog.testing import capture_logs

from jobs.errors import DeviceFault
from jobs.ledger.acceptance import Acceptance
from jobs.ledger.interface import Success
from jobs.ledger.redis import RedisLedger
from jobs.models import MatmulRequest, product_id
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from tests.support.workers.workers import WorkerBench, until
from worker.cpu.runner import CpuRunner
from worker.device.runner import Product
from worker.process import job_computer
from worker.process.child import Child
from worker.process.lease import LeaseKeeper

TIMEOUT_S = 60.0
SUCCEEDED, QUEUED = JobState.SUCCEEDED, JobState.QUEUED


@pytest.fixture
def bench(valkey: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerBench]:
    monkeypatch.setattr(job_computer, "SLICE_S", TIMEOUT_S)  # however busy the machine is
    bench = WorkerBench(valkey, tmp_path, overrides={"max_attempts": "3"})
    yield bench
    bench.client.close()


class Watched(CpuRunner):
    """Does something before each product, which it counts."""

    light_extent = 16

    def __init__(self, bench: WorkerBench, before: Callable[[int], object] = lambda _: None) -> None:
        super().__init__(bench.settings)
        self._before, self.computed = before, 0

    @contextmanager
    def compute(self, *args: Any, **kwargs: Any) -> Iterator[Product]:
        self.computed += 1
        self._before(self.computed)
        with super().compute(*args, **kwargs) as product:
            yield product


def child_of(bench: WorkerBench, runner: CpuRunner) -> Child:
    return Child(bench.settings, runner, bench.ledger, bench.store)


def states(bench: WorkerBench, ids: Sequence[str]) -> list[tuple[JobState, int]]:
    records = [bench.ledger.get(job_id).record for job_id in ids]
    return [(record.state, record.attempt) for record in records]


def assert_right(bench: WorkerBench, job_id: str, depth: int) -> None:
    np.testing.assert_array_equal(bench.product(bench.ledger.get(job_id)), np.full((3, 4), depth, np.float32))


class Steps:
    """How many ends were recorded in each step; `waits` are those whose answer has not been read."""

    def __init__(self, ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: list[int] = []
        self.waits = 0
        self.before_answer: Callable[[], object] = lambda: None
        self._send = ledger.send_successes
        monkeypatch.setattr(ledger, "send_successes", self._sent)

    def _sent(self, done: Sequence[Success]) -> Callable[[], Sequence[Acceptance]]:
        self.counts.append(len(done))
        self.waits += 1
        answer = self._send(done)

        def answered() -> Sequence[Acceptance]:
            self.before_answer()
            taken = answer()
            self.waits -= 1
            return taken

        return answered


@pytest.fixture
def steps(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(bench.ledger, monkeypatch)


def test_one_message_is_enough_for_all(bench: WorkerBench, steps: Steps) -> None:
    ids = [bench.of_depth(depth) for depth in (3, 4, 5, 6)]
    child_of(bench, Watched(bench)).run(ids[2], 1)
    for depth, job_id in enumerate(ids, 3):
        assert_right(bench, job_id, depth)
    assert steps.counts == [4], "all were recorded in one step"
    assert {bench.ledger.get(job_id).record.batch for job_id in ids} == {1}, "each had a launch of its own"
    child_of(bench, Watched(bench)).run(ids[0], 1)
    assert bench.ledger.get(ids[0]).version == 3, "its message came late"


def test_no_end_waits_long_for_others(bench: WorkerBench, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_computer, "SLICE_S", -1.0)
    ids = [bench.of_depth(depth) for depth in (3, 4, 5)]
    child_of(bench, Watched(bench)).run(ids[0], 1)
    assert steps.counts == [1, 1, 1]


def test_products_are_computed_while_redis_records_the_ends_of_others(
    bench: WorkerBench, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_computer, "SLICE_S", -1.0)
    behind, leases = [], []

    def look(number: int) -> None:
        behind.append(steps.waits)
        leases.append({each.claimed.job.id for hold in child._lease._holds for each in hold.held})

    ids = [bench.of_depth(depth) for depth in (3, 4, 5, 6)]
    child = child_of(bench, Watched(bench, look))
    child.run(ids[0], 1)
    assert behind == [0, 1, 1, 1], "one step at most is behind"
    assert steps.waits == 0, "the last answer is read before the next message is taken"
    assert all(held == {*ids} for held in leases), "leases are kept until all ends are recorded"
    for depth, job_id in enumerate(ids, 3):
        assert_right(bench, job_id, depth)


def test_an_answer_that_is_lost_is_asked_for_again(
    bench: WorkerBench, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis may have recorded the ends, or not heard of them."""
    monkeypatch.setattr(job_computer, "SLICE_S", -1.0)
    steps.before_answer = lambda: bench.client.client_kill_filter(_type="normal", skipme=True)
    ids = [bench.of_depth(depth) for depth in (3, 4, 5)]
    child_of(bench, Watched(bench)).run(ids[0], 1)
    bench.ledger._connections.close()  # those that were killed last; one that was just used is not looked at
    assert states(bench, ids) == [(SUCCEEDED, 1)] * 3
    for depth, job_id in enumerate(ids, 3):
        assert_right(bench, job_id, depth)


def test_ends_that_redis_did_not_hear_of_are_sent_again(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be reached when they are sent, or does not know the script any more."""
    refused: list[str] = []
    connections, send = bench.ledger._connections, bench.ledger._connections.send

    def once_away(*command: str | bytes | int | float) -> Callable[[], Any]:
        if command[1] == bench.ledger.scripts.command("succeed")[1] and not refused:
            refused.append("succeed")
            raise redis.ConnectionError
        return send(*command)

    def forget(number: int) -> None:
        if number == 2:
            bench.client.script_flush()
            bench.client.function_flush()

    ids = [bench.of_depth(3), bench.of_depth(4)]
    child = child_of(bench, Watched(bench, forget))
    monkeypatch.setattr(job_computer, "SLICE_S", -1.0)
    monkeypatch.setattr(connections, "send", once_away)
    child.run(ids[0], 1)
    assert refused and states(bench, ids) == [(SUCCEEDED, 1)] * 2


def test_a_product_of_an_attempt_that_was_lost_meanwhile_is_dropped(
    bench: WorkerBench, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its end was on the way. The others count."""
    monkeypatch.setattr(job_computer, "SLICE_S", -1.0)
    ids = [bench.of_depth(depth) for depth in (3, 4, 5)]
    runner = Watched(bench, lambda number: bench.ledger.cancel(ids[1]) if number == 2 else None)
    child_of(bench, runner).run(ids[0], 1)
    assert states(bench, ids) == [(SUCCEEDED, 1), (JobState.CANCELLED, 1), (SUCCEEDED, 1)]
    assert list((bench.directory / "matrices").glob(f"{product_id(ids[1], 1)}*")) == []


def test_a_claim_writes_one_line(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_computer, "SLICE_S", -1.0)
    ids = [bench.of_depth(depth) for depth in (3, 4, 5)]
    child = child_of(bench, Watched(bench))
    with capture_logs() as logged:
        child.run(ids[0], 1)
    lines = [(each["job"], each["jobs"], each["taken"]) for each in logged if each["event"] == "multiplied"]
    assert lines == [(ids[0], 3, 3)]


def test_larger_ones_come_along_as_far_as_there_are_threads(bench: WorkerBench) -> None:
    wide = np.ones((17, 2), np.float32)
    ids = [bench.of_depth(3), bench.submit(wide, wide.T.copy()), bench.submit(wide, wide.T.copy()), bench.of_depth(4)]
    runner = Watched(bench)
    child_of(bench, runner).run(ids[0], 1)
    assert states(bench, ids) == [(SUCCEEDED, 1), (SUCCEEDED, 1), (QUEUED, 1), (QUEUED, 1)]
    child_of(bench, runner).run(ids[2], 1)
    assert states(bench, ids) == [(SUCCEEDED, 1)] * 4


def test_one_that_is_wrong_falls_out_alone(bench: WorkerBench, steps: Steps) -> None:
    ids = [bench.of_depth(depth) for depth in (3, 4, 5)]
    request = bench.ledger.get(ids[1]).record.request
    assert isinstance(request, MatmulRequest) and request.a.matrix is not None
    bench.store.drop(request.a.matrix, request.a.dtype, request.a.shape)
    child_of(bench, Watched(bench)).run(ids[0], 1)
    assert states(bench, ids) == [(SUCCEEDED, 1), (JobState.FAILED, 1), (SUCCEEDED, 1)]
    assert steps.counts == [2]
    for depth, job_id in ((3, ids[0]), (5, ids[2])):
        assert_right(bench, job_id, depth)


def test_one_that_is_called_off_meanwhile_is_not_computed(bench: WorkerBench) -> None:
    ids = [bench.of_depth(depth) for depth in (3, 4, 5)]

    def call_off(number: int) -> None:
        if number == 1:
            bench.ledger.cancel(ids[1])
            held = [each for hold in child._lease._holds for each in hold.held if each.claimed.job.id == ids[1]]
            until(lambda: held[0].lost_at is not None, timeout_s=TIMEOUT_S, what="the word that it was cancelled")

    runner = Watched(bench, call_off)
    child = child_of(bench, runner)
    child.run(ids[0], 1)
    assert states(bench, ids) == [(SUCCEEDED, 1), (JobState.CANCELLED, 1), (SUCCEEDED, 1)]
    assert runner.computed == 2


@pytest.mark.parametrize("slice_s", [TIMEOUT_S, -1.0])
def test_after_a_fault_nothing_more_is_tried(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch, slice_s: float
) -> None:
    """What was done counts, also where its end is still on the way, and the others run again."""
    monkeypatch.setattr(job_computer, "SLICE_S", slice_s)
    ended: list[int] = []
    end = LeaseKeeper.end_child

    def end_child(keeper: LeaseKeeper, code: int, reason: str) -> None:
        monkeypatch.setattr(keeper, "_end", ended.append)
        end(keeper, code, reason)

    def fault(number: int) -> None:
        if number == 2:
            raise DeviceFault

    monkeypatch.setattr(LeaseKeeper, "end_child", end_child)
    ids = [bench.of_depth(depth) for depth in (3, 4, 5)]
    runner = Watched(bench, fault)
    child_of(bench, runner).run(ids[0], 1)
    assert len(ended) == 1 and runner.computed == 2
    assert states(bench, ids) == [(SUCCEEDED, 1), (QUEUED, 2), (QUEUED, 2)]
    again = child_of(bench, Watched(bench))
    for job_id in ids[1:]:
        again.run(job_id, 2)
    for depth, job_id in enumerate(ids, 3):
        assert_right(bench, job_id, depth)
