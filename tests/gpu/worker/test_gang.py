"""A worker of two GPUs: its products, and its end in the middle of one. It is skipped where there is one GPU.

MATMUL_GANG_RECORD: a file for how long it took until memory was free and the job was taken back, and done.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

from benchmarks.recorded import write_rows
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import MIB
from jobs.states import JobState
from kernels.catalog import BY_NAME
from kernels.entries.libraries import CUBLASMP
from kernels.model.numerics import DTypeName, Problem
from tests.gpu.worker.test_tiles import operands
from tests.support.workers.holding import HELD_FROM, go_on_file
from tests.support.workers.workers import WorkerBench, is_dead, running_worker, until
from worker.cpu.blas import multiply
from worker.cpu.environment import dated_environment
from worker.device.cancellable_lock import never_cancelled

if TYPE_CHECKING:
    from worker.cuda.from_host.mp_gang import MpGang, RankProduct

N = 9000
FEW_BYTES, LIMIT_S = 8 * MIB, 60.0
MEMORY_BYTES = 400 * MIB
SPARE_BYTES = 64 * MIB


@pytest.fixture(scope="module")
def two_gpus(gpu: None) -> None:
    import cupy

    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("there is one GPU")


@pytest.fixture(scope="module")
def gang(two_gpus: None) -> MpGang:
    """In this process."""
    skip_without_cublasmp()
    from worker.cuda.from_host.mp_gang import MpGang

    return MpGang([0, 1])


@pytest.fixture(scope="module")
def bench(two_gpus: None, valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerBench]:
    directory = tmp_path_factory.mktemp("gang")
    overrides = {"device_memory_bytes": str(MEMORY_BYTES), "lease_s": "6", "heartbeat_s": "0.5", "auto_measures": "off"}
    module = "tests.support.workers.tiled_worker"
    with running_worker(valkey, directory, module=module, device="gpus:0,1", overrides=overrides) as running:
        yield running


def free_bytes() -> list[int]:
    """Of each GPU."""
    import cupy

    found = []
    for index in range(2):
        with cupy.cuda.Device(index):
            found.append(int(cupy.cuda.runtime.memGetInfo()[0]))
    return found


def tiles(bench: WorkerBench, job_id: str) -> list[str]:
    return [name for name in bench.ledger.findings(job_id) if name.startswith("tile:")]


def assert_rows_right(a: Array, b: Array, product: Array) -> None:
    """Some of them, against float64. Sums of 9000 float32 products are off by up to 0.002, by the order of adding; a
    product in a wrong place is off by about 100."""
    rows = np.random.default_rng().integers(0, N, 16)
    exact = a[rows].astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(product[rows], exact, rtol=0, atol=0.02)


def skip_without_cublasmp() -> None:
    from worker.cuda.library import cublas_mp

    if cublas_mp.version() is None or "cublasmp" not in BY_NAME:
        pytest.skip("cuBLASMp is not installed here")


@pytest.mark.parametrize("dtype", CUBLASMP.dtypes)
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_no_memory_is_left(gang: MpGang, dtype: DTypeName, transpose_a: bool, transpose_b: bool) -> None:
    """Neither CuPy's nor NCCL's; the first product loads what the library keeps."""
    problem = Problem(1501, 1203, 1031, dtype, transpose_a=transpose_a, transpose_b=transpose_b)
    a, b = operands(problem)
    free = []
    for _ in range(3):
        c = np.zeros(problem.product_shape, STORAGE_DTYPES[problem.product_dtype])
        gang.multiply(problem, a, b, c, never_cancelled, LIMIT_S)
        np.testing.assert_array_equal(c, multiply(problem, a, b))
        free.append(free_bytes())
    assert np.abs(np.diff(free[1:], axis=0)).max() < FEW_BYTES, free


def test_a_product_takes_no_more_memory_than_is_admitted(gang: MpGang) -> None:
    """The second one: the first loads what the library keeps."""
    import cupy

    from worker.cuda.from_host.parts import Parts

    problem, free = Problem(N, N, N, "float16"), [0, 0]

    def launch(rank: int, product: RankProduct) -> None:
        with gang.joined(product):
            product.launch_s()
            free[rank] = int(cupy.cuda.runtime.memGetInfo()[0])

    for _ in range(2):
        before = free_bytes()
        gang.on_each(problem, launch, never_cancelled, LIMIT_S)
    assert np.subtract(before, free).max() < Parts(problem, 2).device_bytes + FEW_BYTES


@pytest.fixture(scope="module")
def faults() -> Iterator[list[dict[str, Any]]]:
    """Rows of a record, which is written where one is asked for."""
    rows: list[dict[str, Any]] = []
    yield rows
    if path := os.environ.get("MATMUL_GANG_RECORD"):
        about = {"gpus": 2, "device": rows[0]["device"], "environment": dated_environment("cupy-cuda13x")}
        write_rows(Path(path), about, [{key: row[key] for key in row if key != "device"} for row in rows])


@pytest.mark.parametrize(("fault", "strike"), [("killed", psutil.Process.kill), ("stopped", psutil.Process.suspend)])
def test_a_child_killed_or_stopped_in_the_middle(
    bench: WorkerBench, faults: list[dict[str, Any]], fault: str, strike: Callable[[psutil.Process], None]
) -> None:
    go_on_file(bench.settings.store_dir).unlink(missing_ok=True)
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((N, N), dtype=np.float32) for _ in range(2))
    job_id = bench.submit(a, b, kernel="cublas", timeout_s=300)
    until(lambda: len(tiles(bench, job_id)) >= HELD_FROM, timeout_s=120, what="some tiles")
    before, child = free_bytes(), bench.child()
    strike(child)
    go_on_file(bench.settings.store_dir).touch()
    struck_at = time.monotonic()
    until(lambda: is_dead(child), timeout_s=60, what="its end")
    until(lambda: min(free_bytes()) > min(before) + SPARE_BYTES, timeout_s=30, what="the return of memory")
    free_s = time.monotonic() - struck_at
    until(lambda: bench.ledger.get(job_id).record.attempt == 2, timeout_s=60, what="another attempt")
    taken_back_s = time.monotonic() - struck_at
    kept = len(tiles(bench, job_id))
    job = bench.ended(job_id, timeout_s=300)
    ended_s = time.monotonic() - struck_at
    assert job.record.state is JobState.SUCCEEDED and job.record.attempt == 2, job.record.error
    assert job.record.why is not None and "on 2 GPUs" in job.record.why
    assert_rows_right(a, b, bench.product(job))
    faults.append(
        {
            "fault": fault,
            "n": N,
            "memory_free_s": round(free_s, 3),
            "taken_back_s": round(taken_back_s, 3),
            "ended_s": round(ended_s, 3),
            "tiles": job.record.progress.total,
            "tiles_kept": kept,
            "lease_s": bench.settings.lease_s,
            "device": job.record.device,
        }
    )


def test_a_child_killed_after_a_library_multiplied(bench: WorkerBench) -> None:
    """While its product is checked: nothing of it is kept, and another attempt begins anew."""
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((N, N), dtype=np.float32) for _ in range(2))
    go_on_file(bench.settings.store_dir).unlink(missing_ok=True)
    job_id = bench.submit(a, b, kernel="cublas_xt", timeout_s=300)
    until(lambda: len(tiles(bench, job_id)) >= HELD_FROM, timeout_s=120, what="some tiles")
    child = bench.child()
    child.kill()
    go_on_file(bench.settings.store_dir).touch()
    until(lambda: is_dead(child), timeout_s=30, what="its end")
    job = bench.ended(job_id, timeout_s=300)
    assert job.record.state is JobState.SUCCEEDED and job.record.attempt == 2, job.record.error
    assert job.record.why is not None and "in one call on 2 GPUs, then checked in" in job.record.why
    assert_rows_right(a, b, bench.product(job))


@pytest.mark.parametrize(("kernel", "n"), [("cublas_xt", 5000), ("cublasmp", 5000), ("cublasmp", 40)])
def test_libraries_by_name(bench: WorkerBench, kernel: str, n: int) -> None:
    """Of whole numbers, so that it is exact."""
    if kernel == "cublasmp":
        skip_without_cublasmp()
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-2, 3, (n, n)).astype(np.float32) for _ in range(2))
    go_on_file(bench.settings.store_dir).touch()
    job = bench.ended(bench.submit(a, b, kernel=kernel, timeout_s=300), timeout_s=300)
    assert job.record.state is JobState.SUCCEEDED, job.record.error
    assert job.record.verification is not None and job.record.verification.passed
    np.testing.assert_array_equal(bench.product(job)[:64], a[:64] @ b)


def test_a_product_that_the_library_has_no_room_for(bench: WorkerBench) -> None:
    skip_without_cublasmp()
    a = np.ones((N, N), np.float32)
    job = bench.ended(bench.submit(a, a, kernel="cublasmp", timeout_s=300), timeout_s=300)
    assert job.record.error is not None and "take `auto`, which goes in tiles" in job.record.error.detail


def test_a_small_product_takes_one_gpu(bench: WorkerBench) -> None:
    bench.still_works()


def test_alpha_beta_and_c_on_both(bench: WorkerBench) -> None:
    """Of whole numbers, so that it is exact."""
    rng = np.random.default_rng(4)
    a, b, c = (rng.integers(-2, 3, (N, N)).astype(np.float32) for _ in range(3))
    go_on_file(bench.settings.store_dir).touch()
    added = bench.operand(c, "float32")
    job = bench.ended(bench.submit(a, b, kernel="cublas", timeout_s=300, alpha=2.0, beta=-3.0, c=added), timeout_s=300)
    assert job.record.state is JobState.SUCCEEDED, job.record.error
    assert job.record.why is not None and "on 2 GPUs" in job.record.why
    np.testing.assert_array_equal(bench.product(job)[:64], 2 * (a[:64] @ b) - 3 * c[:64])
