"""Benchmarks on dense rows, on a real GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.benchmarks.spec import DataSpec
from kernels.catalog import BY_NAME
from kernels.model.numerics import REAL_NAMES, DTypeName, Problem
from tests.gpu.test_benchmark import case, operand, passes

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner


@pytest.mark.parametrize("dtype", REAL_NAMES)
@pytest.mark.parametrize("kernel", ["naive", "pipelined", "hopper_bf16", "fp32_emulated", "cublas"])
def test_dense_rows_hold_the_same_elements_and_multiply_as_well(
    runner: CudaRunner, kernel: str, dtype: DTypeName, rng: np.random.Generator
) -> None:
    problem, dense = Problem(301, 203, 511, dtype), DataSpec(layout="dense")
    reason = BY_NAME[kernel].unsupported_because(runner.device.traits, dtype)
    if dtype not in BY_NAME[kernel].accuracy or reason is not None:
        pytest.skip(reason or f"{kernel} does not multiply {dtype}")
    np.testing.assert_array_equal(operand(runner, problem, dense), operand(runner, problem, DataSpec()))
    with runner.bench(problem, dense) as bench:
        bench.poison()
        bench.prepare(case(runner, kernel, problem))
        assert passes(bench, problem, kernel, rng)
