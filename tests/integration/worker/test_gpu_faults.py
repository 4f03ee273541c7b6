"""A GPU worker whose device fails in each of the ways that devices do: the right thing is done about it each time.

CUDA is played (`tests/support/workers/faulty_gpu.py`), all else is real. Real ones: `tests/gpu/worker/test_faults.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from jobs.fleet.workers import WorkerInfo
from jobs.models import Job
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from tests.support.workers import gpu_faults as gpu
from tests.support.workers.workers import START_TIMEOUT_S, WorkerBench, is_dead, running_worker, until

WORKER = {"module": "tests.support.workers.faulty_gpu_worker", "device": "gpu:0"}
OWN = {"max_attempts": "3", "lease_s": "600"}


@pytest.fixture(scope="module")
def bench(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerBench]:
    """One worker for the tests after which it goes on."""
    with running_worker(valkey, tmp_path_factory.mktemp("gpu"), overrides=OWN, **WORKER) as running:
        yield running


def ended_right(bench: WorkerBench, depth: int, kernel: str = "auto") -> Job:
    job = bench.ended(bench.of_depth(depth, kernel=kernel))
    assert job.record.state is JobState.SUCCEEDED, job.record.error
    np.testing.assert_array_equal(bench.product(job), np.full((3, 4), depth, np.float32))
    return job


def failed(bench: WorkerBench, depth: int, **options: Any) -> tuple[str, str, int]:
    """Its error, and the attempt that met it."""
    record = bench.ended(bench.of_depth(depth, **options)).record
    assert record.error is not None
    return record.error.type, record.error.detail, record.attempt


@pytest.mark.parametrize("depth", [gpu.FULL_AT_OPERAND, gpu.FULL_AT_PRODUCT, gpu.FULL_AT_WORKSPACE])
def test_where_memory_runs_out_the_product_is_tried_once_more(bench: WorkerBench, depth: int) -> None:
    child = bench.child()
    assert ended_right(bench, depth, kernel="split_k").record.attempt == 1
    assert bench.child() == child


def test_auto_takes_a_kernel_that_fits(bench: WorkerBench) -> None:
    record = ended_right(bench, gpu.HUNGRY).record
    assert (record.kernel, record.attempt) == ("naive", 1)
    assert record.why is not None and "has no room for" in record.why


def test_a_kernel_that_was_asked_for_and_does_not_fit_fails_in_words(bench: WorkerBench) -> None:
    error, detail, attempt = failed(bench, gpu.HUNGRY, kernel="cublas")
    assert (error, attempt) == ("out_of_device_memory", 1)
    assert "bytes on the device with cublas" in detail and str(gpu.FREE_BYTES) in detail


def test_a_sticky_error_ends_the_child_and_the_job_runs_again(bench: WorkerBench) -> None:
    child = bench.child()
    assert ended_right(bench, gpu.POISONS_ONCE).record.attempt == 2
    until(lambda: is_dead(child), timeout_s=60, what="the end of the child")


def test_a_hang_is_ended_at_the_job_s_time(bench: WorkerBench) -> None:
    error, _, attempt = failed(bench, gpu.HANGS, timeout_s=1.0)
    assert (error, attempt) == ("time_limit_exceeded", 1)
    ended_right(bench, 7)


def test_what_a_kernel_leaves_unwritten_never_comes_out(bench: WorkerBench) -> None:
    """The device's memory is full of others' data, here bytes of 0xA5. The check sees it; unchecked, it is wiped."""
    error, _, attempt = failed(bench, gpu.WRITES_HALF, kernel="naive")
    assert (error, attempt) == ("verification_failed", 3)
    job = bench.ended(bench.of_depth(gpu.WRITES_HALF, kernel="naive", verify="off"))
    assert not bench.product(job)[3 // 2 :].any()
    assert [worker.state for worker in bench.registry.known()] == ["ready"], "it was the kernel's doing, each time"


@pytest.fixture(scope="module")
def two(bench: WorkerBench, valkey: EmbeddedServer) -> Iterator[WorkerBench]:
    """That bench with a second worker on its ledger, of which one will fail. The last test leaves one quarantined."""
    shared = {"key_prefix": bench.settings.key_prefix, "store_dir": str(bench.settings.store_dir)}
    with running_worker(valkey, bench.directory, overrides=OWN | shared, **WORKER) as other:
        until(lambda: len(other.live()) == 2, timeout_s=START_TIMEOUT_S, what="both heartbeats")
        yield bench


def out_of_service(bench: WorkerBench) -> list[WorkerInfo]:
    return [worker for worker in bench.registry.known() if not worker.serves]


def test_a_device_that_vanished_takes_no_jobs_until_it_is_back(two: WorkerBench) -> None:
    assert ended_right(two, gpu.VANISHES).record.attempt == 2
    until(lambda: out_of_service(two), timeout_s=60, what="a word about the device")
    (gone,) = out_of_service(two)
    assert gone.state == "unavailable" and gone.reason is not None and "cudaErrorNoDevice" in gone.reason
    assert gone.id.endswith(gpu.mark_of(two.directory, "vanished"))
    for depth in range(2, 8):
        assert ended_right(two, depth).record.attempt == 1
    (two.directory / "vanished").unlink()
    until(lambda: len(two.live()) == 2, timeout_s=60, what="the device's return")


def test_a_device_that_is_wrong_twice_is_quarantined(two: WorkerBench) -> None:
    """Its jobs succeed elsewhere all the same: a third attempt finds it gone."""
    until(lambda: ended_right(two, gpu.IS_WRONG_HERE) and out_of_service(two), timeout_s=60, what="its quarantine")
    (bad,) = out_of_service(two)
    assert bad.state == "quarantined" and bad.reason is not None and "came out wrong twice" in bad.reason
    assert bad.id.endswith(gpu.mark_of(two.directory, "wrong"))
    for _ in range(8):
        assert ended_right(two, gpu.IS_WRONG_HERE).record.attempt == 1
    assert [worker.id for worker in out_of_service(two)] == [bad.id]
    assert two.log().count("came to a worker that takes no jobs") <= 1, "but one that was fetched before"
