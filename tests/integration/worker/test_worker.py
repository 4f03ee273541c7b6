"""A real worker process: products through it, and what it does when they or it go wrong."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from jobs.errors import MatrixNotFound
from jobs.models import ANONYMOUS, Job, product_id
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.operands import OperandRef, RandomSpec
from jobs.states import JobState
from kernels.model.numerics import DTYPE_NAMES, DTypeName, Problem
from tests.support.kernels.products import assert_right, operands
from tests.support.prompt import soon, within
from tests.support.workers import poison
from tests.support.workers.workers import END_TIMEOUT_S, WorkerBench, is_dead, running_worker, until


@pytest.fixture(scope="module")
def bench(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerBench]:
    """One worker for this file, whose products of certain depths go wrong. No lease runs out meanwhile: that jobs of
    dead children go on is the doing of the child's parent."""
    directory, lease = tmp_path_factory.mktemp("worker"), {"lease_s": "600"}
    with running_worker(valkey, directory, module="tests.support.workers.poisoned_worker", overrides=lease) as running:
        yield running


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_a_product_of_every_type(bench: WorkerBench, dtype: DTypeName) -> None:
    problem = Problem(33, 17, 29, dtype, batch=2, transpose_a=True, a_batched=True)
    a, b = operands(problem, np.random.default_rng(1))
    job = bench.ended(bench.submit(a, b, dtype, transpose_a=True))
    assert_right(problem, a, b, bench.product(job))


def test_the_record_of_a_product_is_complete(bench: WorkerBench) -> None:
    problem = Problem(300, 200, 100, "float32")
    a, b = operands(problem, np.random.default_rng(2))
    record = bench.ended(bench.submit(a, b)).record
    assert (record.state, record.attempt, record.kernel, record.config) == (JobState.SUCCEEDED, 1, "cpu_blas", {})
    assert record.why == "auto: cpu_blas is the only kernel here that takes float32 to fp32."
    assert record.device == bench.live()[0].device.name
    assert record.product is not None and record.product.shape == (300, 200) and record.product.bytes == 240_000
    assert record.timing is not None and 0 < record.timing.kernel_ms < record.timing.total_ms
    assert record.timing.h2d_ms == record.timing.d2h_ms == 0
    assert record.gflops == pytest.approx(problem.flops / record.timing.kernel_ms / 1e6)
    check = record.verification
    assert check is not None and check.method == "freivalds" and check.passed
    assert check.residual is not None and check.threshold is not None and 0 <= check.residual <= check.threshold


def test_operands_of_the_request_go_with_it_and_stored_ones_stay(bench: WorkerBench) -> None:
    a, b = operands(Problem(8, 9, 10, "float32"), np.random.default_rng(3))
    inline = bench.ended(bench.submit(a, b)).record.operands[0].matrix
    kept = bench.ended(bench.submit(a, b, inline=False)).record.operands[0].matrix
    assert kept is not None
    until(lambda: is_gone(bench, inline), timeout_s=60, what="the removal of an inline operand")
    assert bench.store.info(kept, owner=ANONYMOUS).shape == (8, 10)


def is_gone(bench: WorkerBench, matrix_id: str | None) -> bool:
    assert matrix_id is not None
    try:
        bench.store.info(matrix_id, owner=ANONYMOUS)
    except MatrixNotFound:
        return True
    return False


def test_random_operands_and_no_check(bench: WorkerBench) -> None:
    spec = RandomSpec(shape=(20, 20), seed=7)
    operand = OperandRef(source="random", random=spec, dtype="float32", shape=(20, 20))
    record = bench.ended(bench.submit(operand, operand, verify="off")).record
    assert record.state == JobState.SUCCEEDED
    assert record.verification is not None and record.verification.passed is None


def test_an_operand_that_is_gone_fails_the_job(bench: WorkerBench) -> None:
    a = bench.operand(np.ones((2, 2), np.float32), "float32")
    assert a.matrix is not None
    (bench.settings.store_dir / a.matrix).unlink()
    record = bench.ended(bench.submit(a, np.ones((2, 2), np.float32))).record
    assert record.error is not None and record.error.type == "operand_missing"


def test_a_kernel_of_another_device_fails_the_job(bench: WorkerBench) -> None:
    record = bench.ended(bench.of_depth(5, kernel="naive")).record
    assert record.error is not None and record.error.type == "kernel_unavailable"
    assert record.error.detail == "naive runs on a GPU, not on a CPU."


def test_the_worker_is_on_the_register(bench: WorkerBench) -> None:
    assert bench.process is not None
    (info,) = bench.live()
    assert (info.queue, info.kernels, info.device.cores) == ("cpu", ("cpu_blas", "cpu_float64", "cpu_exact"), 1)
    assert info.id.endswith(f"/cpu/{bench.process.pid}")
    products = info.verified_products
    bench.still_works()
    until(lambda: bench.live()[0].verified_products > products, timeout_s=60, what="a beat with the new count")


def test_a_running_job_is_cancelled_within_a_second(bench: WorkerBench) -> None:
    def taken_s() -> float:
        job_id = bench.of_depth(poison.HANGS)
        bench.until_state(job_id, JobState.RUNNING)
        child = bench.child()
        began = time.monotonic()
        bench.ledger.cancel(job_id)
        until(lambda: is_dead(child), timeout_s=END_TIMEOUT_S, what="the end of the child")
        seconds = time.monotonic() - began
        bench.still_works()
        assert bench.ledger.get(job_id).record.state == JobState.CANCELLED
        return seconds

    soon(1.0, taken_s)


def test_a_job_whose_child_is_killed_runs_again(bench: WorkerBench) -> None:
    job_id = bench.of_depth(poison.HANGS_ONCE)
    # A job is running before it hangs: killed in between, it would hang in its second run.
    until((bench.directory / poison.RAN).exists, timeout_s=END_TIMEOUT_S, what="the first run")
    bench.child().kill()
    job = bench.ended(job_id)
    assert (job.record.state, job.record.attempt) == (JobState.SUCCEEDED, 2)
    np.testing.assert_array_equal(bench.product(job), np.full((3, 4), poison.HANGS_ONCE))


def test_a_job_that_kills_its_worker_is_given_up(bench: WorkerBench) -> None:
    job = bench.ended(bench.of_depth(poison.KILLS))
    assert job.record.error is not None and job.record.error.type == "worker_lost"
    assert job.record.attempt == bench.settings.max_attempts
    assert job.id in bench.ledger.dead_letters()
    bench.still_works()


def test_a_job_over_its_time_is_ended(bench: WorkerBench) -> None:
    def over_its_time() -> Job:
        started = time.monotonic()
        job = bench.ended(bench.of_depth(poison.HANGS, timeout_s=1.0))
        assert time.monotonic() - started > 1.0
        return job

    job = within(3.0, over_its_time)
    assert job.record.error is not None and job.record.error.type == "time_limit_exceeded"
    assert job.record.attempt == 1
    bench.still_works()


def test_a_wrong_product_is_never_returned(bench: WorkerBench) -> None:
    job = bench.ended(bench.of_depth(poison.IS_WRONG))
    assert job.record.error is not None and job.record.error.type == "verification_failed"
    assert job.record.attempt == bench.settings.max_attempts
    assert is_gone(bench, product_id(job.id, job.record.attempt))


def test_a_device_fault_takes_the_child_along_and_the_job_runs_again(bench: WorkerBench) -> None:
    child = bench.child()
    job = bench.ended(bench.of_depth(poison.FAULTS))
    assert job.record.error is not None and job.record.error.type == "device_fault"
    assert job.record.attempt == bench.settings.max_attempts
    until(lambda: is_dead(child), timeout_s=60, what="the end of the faulty child")
    bench.still_works()


def test_an_error_in_the_worker_s_own_code_fails_the_job_and_nothing_else(bench: WorkerBench) -> None:
    child = bench.child()
    job = bench.ended(bench.of_depth(poison.HAS_A_BUG))
    assert job.record.error is not None and job.record.error.type == "job_failed"
    assert "ZeroDivisionError" not in job.record.error.detail
    bench.still_works()
    assert child.is_running()


def test_redis_killed_under_a_running_job(own_server: EmbeddedServer, tmp_path: Path) -> None:
    with running_worker(own_server, tmp_path, module="tests.support.workers.poisoned_worker") as bench:
        job_id = bench.of_depth(poison.TAKES_2_S)
        bench.until_state(job_id, JobState.RUNNING)
        own_server.kill()
        time.sleep(0.5)
        own_server.start()
        assert bench.ended(job_id).record.state == JobState.SUCCEEDED
        bench.still_works()


def test_a_worker_told_to_end_ends_its_job_first(
    valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("ending")
    with running_worker(valkey, directory, module="tests.support.workers.poisoned_worker") as bench:
        job_id = bench.of_depth(poison.TAKES_2_S)
        bench.until_state(job_id, JobState.RUNNING)
        assert bench.process is not None
        bench.process.terminate()
        assert bench.process.wait(60) == 0
        assert bench.ledger.get(job_id).record.state == JobState.SUCCEEDED
        assert bench.live() == []


def test_a_child_dies_with_its_parent(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_worker(valkey, tmp_path_factory.mktemp("orphan")) as bench:
        child = bench.child()
        assert bench.process is not None
        os.kill(bench.process.pid, signal.SIGKILL)
        bench.process.wait()
        assert psutil.wait_procs([child], timeout=60)[1] == []


def test_a_child_that_is_stopped_is_ended_and_its_job_runs_again(valkey: EmbeddedServer, tmp_path: Path) -> None:
    """Long before its job's time limit."""
    module = "tests.support.workers.poisoned_worker"
    with running_worker(valkey, tmp_path, module=module, overrides={"lease_s": "1"}) as bench:
        job_id = bench.of_depth(poison.HANGS_ONCE, timeout_s=3600.0)
        until((bench.directory / poison.RAN).exists, timeout_s=END_TIMEOUT_S, what="the first run")
        child = bench.child()
        child.suspend()
        until(lambda: is_dead(child), timeout_s=END_TIMEOUT_S, what="the end of the child")
        job = bench.ended(job_id)
        assert (job.record.state, job.record.attempt) == (JobState.SUCCEEDED, 2)


def test_a_worker_that_is_not_ready_says_why_and_tries_again(valkey: EmbeddedServer, tmp_path: Path) -> None:
    bench = WorkerBench(valkey, tmp_path)
    bench.settings.store_dir.chmod(0o755)  # others could read what lies there
    try:
        bench.spawn()
        until(lambda: "not ready" in bench.log(), timeout_s=60, what="a word about it")
        assert "must be a directory of this user that no other may enter" in bench.log()
        assert bench.live() == []
        bench.settings.store_dir.chmod(0o700)
        until(bench.live, timeout_s=60, what="the next try")
        bench.still_works()
    finally:
        bench.stop()
        bench.client.close()
