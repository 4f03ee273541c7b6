"""One child, in this process, on a real Redis: what becomes of a product whose job is not its own any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event, Thread
from types import SimpleNamespace

import numpy as np
import pytest
from structlog.testing import capture_logs

from jobs.errors import MatrixNotFound, StoreFull, StoreUnavailable
from jobs.ledger.acceptance import Acceptance
from jobs.ledger.interface import Success
from jobs.ledger.redis import RedisLedger
from jobs.matrices.factory import bounds_of
from jobs.models import ANONYMOUS, JobError, product_id
from jobs.queue import make_celery, message_format
from jobs.redis.replicas import Mark
from jobs.settings import DAY_S
from jobs.states import JobState
from tests.support.ledger.ledgers import outcome
from tests.support.workers.workers import WorkerBench, until
from worker.cpu.runner import CpuRunner
from worker.process import ends
from worker.process.child import UNTOLD, Child
from worker.process.lease import EXIT_FAULT, LeaseKeeper

TIMEOUT_S = 60.0


class Meanwhile(RedisLedger):
    """A ledger where something happens to the job just before its success is recorded."""

    happens: Callable[[RedisLedger, str], object]

    def send_successes(self, done: Sequence[Success]) -> Callable[[], Sequence[Acceptance]]:
        return partial(self.succeed_all, done)

    def succeed_all(self, done: Sequence[Success]) -> Sequence[Acceptance]:
        for each in done:
            self.happens(self, each.job_id)
        return super().succeed_all(done)


def run(bench: WorkerBench, happens: Callable[[RedisLedger, str], object]) -> str:
    """A job through a child, with `happens` in between; its id."""
    with make_celery(bench.settings) as app:
        messages, bounds = message_format(app), bounds_of(bench.settings)
    ledger = Meanwhile(bench.client, prefix=bench.settings.key_prefix, messages=messages, bounds=bounds)
    ledger.happens = lambda of, job_id: happens(of, job_id)
    child = Child(bench.settings, CpuRunner(bench.settings), ledger, bench.store)
    job_id = bench.submit(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32))
    child.run(job_id, 1)
    child.wait_until_idle()
    child.heartbeat.stop()
    return job_id


def has_product(bench: WorkerBench, job_id: str, attempt: int = 1) -> bool:
    try:
        return bench.store.info(product_id(job_id, attempt), owner=ANONYMOUS).shape == (2, 4)
    except MatrixNotFound:
        return False


def test_the_product_of_a_job_that_was_cancelled_at_the_last_moment_is_thrown_away(bench: WorkerBench) -> None:
    job_id = run(bench, lambda ledger, job_id: ledger.cancel(job_id))
    assert bench.ledger.get(job_id).record.state == JobState.CANCELLED
    assert not has_product(bench, job_id)


def test_the_product_of_a_job_that_runs_elsewhere_by_now_is_thrown_away_and_that_run_s_is_not(
    bench: WorkerBench,
) -> None:
    def taken_over(ledger: RedisLedger, job_id: str) -> None:
        ledger.fail(job_id, 1, JobError(type="worker_lost", detail="Its lease ran out."), max_attempts=2)
        assert ledger.claim(job_id, 2, worker="another", lease_s=6.0)
        with bench.store.create("float32", (2, 4), owner=ANONYMOUS, ttl_s=60, name=product_id(job_id, 2)) as another:
            another.write(bytes(2 * 4 * 4))
            another.commit()

    job_id = run(bench, taken_over)
    assert bench.ledger.get(job_id).record.attempt == 2
    assert not has_product(bench, job_id)
    assert has_product(bench, job_id, attempt=2)


@pytest.mark.parametrize("refusal", [StoreUnavailable, StoreFull])
def test_a_success_is_recorded_once_redis_serves_again(bench: WorkerBench, refusal: type[Exception]) -> None:
    refusals = [refusal(), refusal()]

    def refused(ledger: RedisLedger, job_id: str) -> None:
        if refusals:
            raise refusals.pop()

    job_id = run(bench, refused)
    assert bench.ledger.get(job_id).record.state == JobState.SUCCEEDED
    assert has_product(bench, job_id)


def test_an_end_that_redis_never_heard_of_leaves_the_job_to_another_run(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is up by then. The process goes on, and says so in one line."""

    def away(_: RedisLedger, __: str) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(ends, "WORK_TIMEOUT_S", 0.0)
    monkeypatch.setattr(ends, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + DAY_S))
    with capture_logs() as logs:
        job_id = run(bench, away)
    (line,) = [each for each in logs if each["log_level"] == "error"]
    assert (line["event"], line["jobs"]) == (UNTOLD, [job_id]) and "exc_info" not in line
    assert bench.ledger.get(job_id).record.state == JobState.RUNNING
    until(lambda: bench.ledger.take_back(job_id, 1, max_attempts=2), timeout_s=60, what="the end of the lease")
    child = Child(bench.settings, CpuRunner(bench.settings), bench.ledger, bench.store)
    child.run(job_id, 2)
    child.wait_until_idle()
    child.heartbeat.stop()
    record = bench.ledger.get(job_id).record
    assert (record.state, record.attempt) == (JobState.SUCCEEDED, 2) and has_product(bench, job_id, attempt=2)
    assert not bench.ledger.succeed(job_id, 1, outcome()), "what was late is not taken"


def test_a_stale_message_is_a_no_op(bench: WorkerBench) -> None:
    job_id = run(bench, lambda ledger, job_id: None)
    version = bench.ledger.get(job_id).version
    child = Child(bench.settings, CpuRunner(bench.settings), bench.ledger, bench.store)
    child.run(job_id, 1)
    child.run(job_id, 2)
    child.run("job_" + "0" * 32, 1)
    assert bench.ledger.get(job_id).version == version


def stored_operands(bench: WorkerBench, job_id: str) -> list[bool]:
    """Whether each is there."""
    record = bench.ledger.get(job_id).record
    return [(bench.settings.store_dir / str(operand.matrix)).exists() for operand in record.operands]


def test_small_operands_go_together_once_no_job_is_left(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[Mark]] = []
    monkeypatch.setattr(RedisLedger, "check_written", lambda _, *marks, wait_s: asked.append(marks))
    child = Child(bench.settings, CpuRunner(bench.settings), bench.ledger, bench.store)
    jobs: list[str] = []
    for _ in range(3):
        jobs.append(bench.submit(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)))
        child.run(jobs[-1], 1)
    assert [stored_operands(bench, job_id) for job_id in jobs] == [[True, True]] * 3
    assert not asked
    child.wait_until_idle()
    assert [stored_operands(bench, job_id) for job_id in jobs] == [[False, False]] * 3
    assert [len(marks) for marks in asked] == [3]
    child.heartbeat.stop()


def test_operands_stay_where_a_crash_of_redis_would_take_the_success_back(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: RedisLedger, *marks: Mark, wait_s: float) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(RedisLedger, "check_written", refused)
    job_id = run(bench, lambda ledger, job_id: None)
    assert bench.ledger.get(job_id).record.state == JobState.SUCCEEDED
    assert stored_operands(bench, job_id) == [True, True]


def test_a_process_whose_measurement_hangs_ends_once_a_job_waits(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the code of a fault of the device."""
    codes, ended = list[int](), Event()

    def end_child(_: LeaseKeeper, code: int, __: str) -> None:
        codes.append(code)
        ended.set()

    monkeypatch.setattr(LeaseKeeper, "end_child", end_child)
    child = Child(bench.settings, CpuRunner(bench.settings), bench.ledger, bench.store)
    monkeypatch.setattr(child._loans, "_too_long_s", 0.01)
    waiting = Thread(target=child._loans.begin_job)
    with child._loans.spare():
        waiting.start()
        assert ended.wait(TIMEOUT_S)
    waiting.join(TIMEOUT_S)
    child.heartbeat.stop()
    assert set(codes) == {EXIT_FAULT}
