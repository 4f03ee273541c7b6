"""Real faults of a GPU under a real worker. `tests/integration/worker/test_gpu_faults.py` plays more of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from tests.support.workers import poison, poison_gpu
from tests.support.workers.workers import WorkerBench, is_dead, running_worker, until

END_S = 120.0  # a child may have to start before


@pytest.fixture
def bench(gpu: None, valkey: EmbeddedServer, tmp_path: Path) -> Iterator[WorkerBench]:
    """No lease runs out meanwhile."""
    module, own = "tests.support.workers.poisoned_gpu_worker", {"lease_s": "600", "max_attempts": "3"}
    with running_worker(valkey, tmp_path, module=module, device="gpu:0", overrides=own) as running:
        yield running


def still_works(bench: WorkerBench) -> None:
    job = bench.ended(bench.of_depth(5, kernel="naive"), timeout_s=END_S)
    np.testing.assert_array_equal(bench.product(job), np.full((3, 4), 5.0, np.float32))


def test_memory_that_runs_out_and_an_illegal_address(bench: WorkerBench) -> None:
    child = bench.child()
    job = bench.ended(bench.of_depth(poison_gpu.IS_FULL_ONCE, kernel="naive"), timeout_s=END_S)
    assert (job.record.state, job.record.attempt) == (JobState.SUCCEEDED, 1), job.record.error
    assert bench.child() == child
    error = bench.ended(bench.of_depth(poison.FAULTS, kernel="naive"), timeout_s=END_S).record.error
    assert error is not None and error.type == "device_fault" and "cudaErrorIllegalAddress" in error.detail
    still_works(bench)


def test_a_kernel_that_hangs_is_ended_at_the_job_s_time(bench: WorkerBench) -> None:
    child = bench.child()
    record = bench.ended(bench.of_depth(poison.HANGS, kernel="naive", timeout_s=2.0), timeout_s=END_S).record
    assert record.error is not None and record.error.type == "time_limit_exceeded"
    until(lambda: is_dead(child), timeout_s=END_S, what="the end of the child")
    still_works(bench)


def test_what_no_kernel_wrote_never_comes_out(bench: WorkerBench) -> None:
    """Large enough to be checked on the device, and to lie in memory that the product before has filled."""
    k = poison_gpu.WRITES_NOTHING
    a, b = np.ones((600, k), np.float32), np.ones((k, 700), np.float32)
    shorter = bench.ended(bench.submit(a[:, 1:], b[1:], kernel="naive"), timeout_s=END_S)
    assert (bench.product(shorter) == k - 1).all()
    checked = bench.ended(bench.submit(a, b, kernel="naive"), timeout_s=END_S).record
    assert checked.error is not None and checked.error.type == "verification_failed"
    unchecked = bench.ended(bench.submit(a, b, kernel="naive", verify="off"), timeout_s=END_S)
    assert not bench.product(unchecked).any()
    assert [worker.state for worker in bench.registry.known()] != ["quarantined"], "a kernel may be to blame"


def test_a_device_that_is_wrong_twice_is_quarantined(bench: WorkerBench) -> None:
    job_id = bench.of_depth(poison_gpu.IS_WRONG_AT_RANDOM, kernel="naive")
    until(lambda: not bench.live(), timeout_s=END_S, what="its quarantine")
    (worker,) = bench.registry.known()
    assert worker.state == "quarantined" and worker.reason is not None
    assert bench.ledger.get(job_id).record.attempt == 3
    assert bench.ledger.get(job_id).record.state is JobState.QUEUED, "no one takes it"
