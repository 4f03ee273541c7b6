"""The lease of a child on its job, on a ledger in memory. What would end the process is noted instead."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, Queue

import pytest

from jobs.errors import StaleAttempt, StoreUnavailable
from jobs.ledger.interface import Claimed
from jobs.settings import Settings
from jobs.states import JobState
from tests.support.ledger.ledgers import new_job
from tests.support.ledger.memory_ledger import MemoryLedger, wall_clock_us
from tests.support.prompt import within
from tools.harness.api import until
from worker.process import lease
from worker.process.lease import EXIT_CALLED_OFF, EXIT_TIME_UP, GRACE_S, Hold, LeaseKeeper

SETTINGS = Settings(heartbeat_s=0.05, lease_s=1.0, redis_timeout_s=0.2)
DEADLINE_S = 60.0
LONG_GRACE_S = 4.0  # so that a busy machine does not take it all


class Bench:
    """A claimed job, and a keeper that would end this process with the codes in `ends`."""

    def __init__(self, timeout_s: float = 60.0, clock: Callable[[], int] = wall_clock_us) -> None:
        self.ledger = MemoryLedger(clock=clock)
        self.ends: Queue[int] = Queue()
        self.keeper = LeaseKeeper(self.ledger, SETTINGS, end=self.ends.put)
        self.claimed = self.claim(timeout_s)

    def claim(self, timeout_s: float = 60.0) -> Claimed:
        job, _ = self.ledger.submit(new_job(timeout_s=timeout_s), max_queued=10, max_queued_per_owner=10)
        claimed = self.ledger.claim(job.id, 1, worker="here", lease_s=SETTINGS.lease_s)
        assert claimed is not None
        return claimed

    @property
    def state(self) -> JobState:
        return self.ledger.get(self.claimed.job.id).record.state

    def ended(self) -> int:
        """The code that the process would end with."""
        return self.ends.get(timeout=DEADLINE_S)

    def nothing_ends(self, seconds: float) -> bool:
        try:
            self.ends.get(timeout=seconds)
        except Empty:
            return True
        return False


def test_a_lease_is_kept_as_long_as_its_job_runs() -> None:
    bench = Bench()
    with bench.keeper.hold([bench.claimed]) as hold:
        assert bench.nothing_ends(1.5 * SETTINGS.lease_s)
        assert bench.ledger.expired_leases() == []
        hold.check()
    until(lambda: bench.ledger.expired_leases() == [(bench.claimed.job.id, 1)])


def test_a_job_does_not_run_out_of_time_by_a_clock_that_is_set() -> None:
    """The ledger's is set forward, as after a pause of its machine."""
    ahead_us = [0]
    bench = Bench(600.0, lambda: wall_clock_us() + ahead_us[0])
    with bench.keeper.hold([bench.claimed]):
        ahead_us[0] = 3_600_000_000
        until(lambda: bench.ledger.expired_leases() == [])


def is_lost(hold: Hold) -> bool:
    """Whether it is known to be."""
    try:
        hold.check()
    except StaleAttempt:
        return True
    return False


def test_a_cancelled_job_may_stop_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "GRACE_S", LONG_GRACE_S)
    bench = Bench()
    with bench.keeper.hold([bench.claimed]) as hold:
        bench.ledger.cancel(bench.claimed.job.id)
        until(lambda: is_lost(hold))
    assert bench.nothing_ends(1.2 * LONG_GRACE_S)


def test_a_cancelled_job_that_does_not_stop_takes_the_process_along() -> None:
    def cancelled() -> None:
        bench = Bench()
        with bench.keeper.hold([bench.claimed]):
            started = time.monotonic()
            bench.ledger.cancel(bench.claimed.job.id)
            assert bench.ended() == EXIT_CALLED_OFF
            assert time.monotonic() - started >= GRACE_S

    within(1.0, cancelled)


def test_time_that_is_up_is_recorded_before_the_process_ends() -> None:
    bench = Bench(timeout_s=0.3)
    with bench.keeper.hold([bench.claimed]):
        assert bench.ended() == EXIT_TIME_UP
    error = bench.ledger.get(bench.claimed.job.id).record.error
    assert error is not None and error.type == "time_limit_exceeded"
    assert error.detail == "The job ran longer than its time limit of 0.3 s; make it smaller or allow it more."


def test_a_store_that_is_away_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    calls = []

    def away(*_: object, **__: object) -> bool:
        calls.append(1)
        raise StoreUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(bench.ledger, "renew", away)
        with bench.keeper.hold([bench.claimed]) as hold:
            until(lambda: len(calls) > 9)
            hold.check()
            assert bench.nothing_ends(0.0)
            patch.undo()
            until(lambda: bench.ledger.expired_leases() == [])


def test_a_keeper_serves_one_job_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "GRACE_S", LONG_GRACE_S)
    bench = Bench()
    with bench.keeper.hold([bench.claimed]) as hold:
        bench.ledger.cancel(bench.claimed.job.id)
        until(lambda: is_lost(hold))
    bench.claimed = bench.claim()
    with bench.keeper.hold([bench.claimed]) as hold:
        assert bench.nothing_ends(1.2 * LONG_GRACE_S), "the first job's end is none of the second's"
        hold.check()
    assert bench.state is JobState.RUNNING


def test_jobs_beside_one_that_must_end_are_handed_back_before_the_process_ends() -> None:
    bench = Bench(timeout_s=0.3)
    beside = bench.claim()
    with bench.keeper.hold([beside]) as other, bench.keeper.hold([bench.claimed]):
        assert bench.ended() == EXIT_TIME_UP
        with pytest.raises(StaleAttempt):
            other.check()
    assert bench.state is JobState.FAILED
    record = bench.ledger.get(beside.job.id).record
    assert record.state is JobState.QUEUED and record.attempt == 2


def test_a_cancelled_job_beside_others_has_longer_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "GRACE_BESIDE_OTHERS_S", LONG_GRACE_S)
    bench = Bench()
    beside = bench.claim()
    with bench.keeper.hold([beside]) as other:
        with bench.keeper.hold([bench.claimed]) as hold:
            bench.ledger.cancel(bench.claimed.job.id)
            until(lambda: is_lost(hold))
            assert bench.nothing_ends(GRACE_S + 3 * SETTINGS.heartbeat_s)
        assert bench.nothing_ends(1.2 * LONG_GRACE_S)
        other.check()


def test_a_cancelled_job_that_does_not_stop_ends_the_others_attempts_too() -> None:
    bench = Bench()
    beside = bench.claim()
    with bench.keeper.hold([beside]), bench.keeper.hold([bench.claimed]):
        bench.ledger.cancel(bench.claimed.job.id)
        assert bench.ended() == EXIT_CALLED_OFF
    assert bench.ledger.get(beside.job.id).record.state is JobState.QUEUED


def test_jobs_that_wait_for_their_launch_keep_their_leases_and_cost_the_process_nothing() -> None:
    bench = Bench(timeout_s=0.2)  # which counts from its launch on
    beside = bench.claim()
    with bench.keeper.hold([bench.claimed, beside], waits=True):
        bench.ledger.cancel(beside.job.id)
        assert bench.nothing_ends(1.5 * SETTINGS.lease_s)
        assert bench.ledger.expired_leases() == []
        bench.ledger.cancel(bench.claimed.job.id)
        assert bench.nothing_ends(2 * GRACE_S)


def test_jobs_that_wait_are_handed_back_before_the_process_ends() -> None:
    bench = Bench(timeout_s=0.3)
    waiting = bench.claim()
    with bench.keeper.hold([waiting], waits=True), bench.keeper.hold([bench.claimed]):
        assert bench.ended() == EXIT_TIME_UP
    record = bench.ledger.get(waiting.job.id).record
    assert record.state is JobState.QUEUED and record.attempt == 2
