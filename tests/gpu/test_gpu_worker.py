"""A real worker process on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from kernels.catalog import BY_NAME, CATALOG
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import DTypeName, Problem
from tests.gpu.kernels.test_kernels import CASES
from tests.support.kernels.products import assert_right, operands
from tests.support.workers.poison import FAULTS
from tests.support.workers.workers import WorkerBench, is_dead, running_worker, until


@pytest.fixture(scope="module")
def bench(gpu: None, valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerBench]:
    directory = tmp_path_factory.mktemp("gpu-worker")
    with running_worker(
        valkey, directory, module="tests.support.workers.poisoned_gpu_worker", device="gpu:0"
    ) as running:
        yield running


ON_ONE_GPU = [(name, dtype) for name, dtype in CASES if not isinstance(BY_NAME[name], HostLibraryKernel)]


@pytest.mark.parametrize(("name", "dtype"), ON_ONE_GPU)
def test_a_product_by_every_kernel(bench: WorkerBench, name: str, dtype: DTypeName) -> None:
    problem = Problem(301, 257, 129, dtype, transpose_b=True)
    a, b = operands(problem, np.random.default_rng())
    job = bench.ended(bench.submit(a, b, dtype, kernel=name, transpose_b=True))
    assert_right(problem, a, b, bench.product(job))
    record = job.record
    assert record.kernel == name and record.device == bench.live()[0].device.name
    assert record.timing is not None and min(record.timing.h2d_ms, record.timing.kernel_ms, record.timing.d2h_ms) > 0
    assert record.gflops is not None and record.gflops > 0
    assert record.verification is not None and record.verification.passed


def test_auto_decides_once_and_keeps_stored_operands_on_the_device(bench: WorkerBench) -> None:
    a, b = operands(Problem(1000, 900, 800, "float32"), np.random.default_rng())
    refs = bench.operand(a, "float32", inline=False), bench.operand(b, "float32", inline=False)
    first, second = (bench.ended(bench.submit(*refs)).record for _ in range(2))
    assert first.kernel == second.kernel and first.why == second.why
    assert first.timing is not None and first.timing.h2d_ms > 0
    assert second.timing is not None and second.timing.h2d_ms == 0


def test_a_kernel_of_reduced_precision_is_one_in_the_worker_too(bench: WorkerBench) -> None:
    """Whatever environment the worker makes for itself: TF32 keeps 11 of float32's 24 significant bits."""
    a, b = operands(Problem(1024, 1024, 1024, "float32"), np.random.default_rng())
    exact = a.astype(np.float64) @ b.astype(np.float64)

    def error(kernel: str) -> float:
        accuracy = BY_NAME[kernel].accuracy["float32"]
        given = bench.product(bench.ended(bench.submit(a, b, "float32", kernel=kernel, accuracy=accuracy)))
        return float(np.linalg.norm(given - exact) / np.linalg.norm(exact))

    assert error("cublas") < 1e-5 < error("cublas_tf32") < 1e-3


def test_the_worker_is_on_the_register(bench: WorkerBench) -> None:
    (info,) = bench.live()
    assert info.queue == "gpu"
    of_gpus = {kernel.name for kernel in CATALOG if kernel.device_class == "gpu"}
    libraries = {name for name in of_gpus if isinstance(BY_NAME[name], HostLibraryKernel)}  # which may need more GPUs
    assert of_gpus - libraries <= {*info.kernels} <= of_gpus
    assert info.device.index == 0 and "/gpu:0/" in info.id
    assert info.telemetry.memory_free_bytes


def test_the_parent_of_a_gpu_worker_has_no_cuda_in_it(bench: WorkerBench) -> None:
    assert bench.process is not None
    parent, child = (Path(f"/proc/{pid}/maps").read_text() for pid in (bench.process.pid, bench.child().pid))
    assert "cupy" in child and "libcuda" in child
    assert "cupy" not in parent and "libcuda" not in parent


def test_an_illegal_address_takes_the_child_along_and_the_job_runs_again(bench: WorkerBench) -> None:
    child = bench.child()
    job = bench.ended(bench.of_depth(FAULTS, kernel="naive"), timeout_s=60)
    assert job.record.error is not None and job.record.error.type == "device_fault"
    assert "cudaErrorIllegalAddress" in job.record.error.detail
    assert job.record.attempt == bench.settings.max_attempts
    until(lambda: is_dead(child), timeout_s=10, what="the end of the faulty child")
    bench.still_works()


def test_what_does_not_fit_fails_and_the_worker_goes_on(bench: WorkerBench) -> None:
    child = bench.child()
    a, b = np.ones((300_000, 1), np.float32), np.ones((1, 300_000), np.float32)
    job = bench.ended(bench.submit(a, b))
    assert job.record.state == JobState.FAILED
    assert job.record.error is not None and job.record.error.type == "out_of_device_memory"
    bench.still_works()
    assert child.is_running()
