"""A real worker on a GPU takes the fastest kernel within a tolerance, and refuses what its kernels cannot prove."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from kernels.catalog import BY_NAME
from kernels.model.numerics import Problem
from tests.support.kernels.products import operands
from tests.support.workers.workers import WorkerBench, running_worker


@pytest.fixture(scope="module")
def bench(gpu: None, valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerBench]:
    with running_worker(valkey, tmp_path_factory.mktemp("gpu-demands"), device="gpu:0") as running:
        yield running


@pytest.mark.parametrize(
    ("tolerance", "kind", "classes"),
    [
        (2e-2, "componentwise", {"bf16", "fp16", "tf32", "fp32"}),
        (4e-3, "componentwise", {"fp16", "tf32", "fp32"}),
        (9e-4, "componentwise", {"fp32"}),
        (4e-3, "normwise", {"fp16", "tf32", "fp32", "fp32_normwise"}),
    ],
)
def test_the_fastest_kernel_within_a_tolerance(
    bench: WorkerBench, tolerance: float, kind: str, classes: set[str]
) -> None:
    a, b = operands(Problem(4096, 4096, 4096, "float32"), np.random.default_rng(1))
    record = bench.ended(bench.submit(a, b, "float32", tolerance=tolerance, tolerance_kind=kind)).record
    assert record.state is JobState.SUCCEEDED and record.kernel is not None and record.error_bound is not None
    assert BY_NAME[record.kernel].accuracy["float32"] in classes
    assert record.error_bound.kind == kind and 0 < record.error_bound.value <= tolerance


def test_operands_that_no_kernel_takes_fail_with_the_best_bound(bench: WorkerBench) -> None:
    a, b = operands(Problem(256, 256, 256, "float32"), np.random.default_rng(1))
    tiny = (a * np.float32(2.0**-140)).astype(np.float32)
    record = bench.ended(bench.submit(tiny, b, "float32", tolerance=1e-3)).record
    assert record.error is not None and record.error.type == "operand_out_of_range"
    assert "No kernel here is proven to multiply these float32 operands" in record.error.detail


def test_integers_are_reproducible_on_a_gpu(bench: WorkerBench) -> None:
    a, b = operands(Problem(300, 200, 500, "int8"), np.random.default_rng(1))
    job = bench.ended(bench.submit(a, b, "int8", reproducible=True))
    np.testing.assert_array_equal(bench.product(job), a.astype(np.int32) @ b.astype(np.int32))
    assert job.record.error_bound is not None and job.record.error_bound.value == 0.0
