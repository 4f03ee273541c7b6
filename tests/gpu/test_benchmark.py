"""Benchmarks on the GPU: their operands, and what is checked is what was timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.benchmarks.cases import Case
from jobs.benchmarks.spec import DataDistribution, DataSpec
from jobs.formats import bfloat16, float8
from jobs.formats.elements import Array
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG
from kernels.model.numerics import DTYPES, REAL_NAMES, DTypeName, Problem
from worker.check.verify import check

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner
    from worker.device.bench import Bench

NORMAL = DataSpec()
SQUARE = Problem(2048, 2048, 2048, "float32")  # some hundred microseconds on a large device


def case(runner: CudaRunner, kernel: str, problem: Problem) -> Case:
    return Case(kernel, dict(BY_NAME[kernel].resolve_config(NO_CONFIG, problem, runner.device.traits)), problem)


# ---- operands ----
def operand(runner: CudaRunner, problem: Problem, data: DataSpec) -> Array:
    with runner.bench(problem, data) as bench:
        found: Array = bench.matrices().elementwise.a.elements(0, np.arange(problem.m)[:, None], np.arange(problem.k))
        return found


@pytest.mark.parametrize(
    ("distribution", "mean", "variance"), [("normal", 0, 1), ("uniform", 0.5, 1 / 12), ("integers", 0, 24)]
)
def test_operands_have_the_distribution_asked_for(
    runner: CudaRunner, distribution: DataDistribution, mean: float, variance: float
) -> None:
    problem = Problem(300, 5, 1001, "float32")
    first = operand(runner, problem, DataSpec(distribution=distribution, seed=3, scale=2.0))
    assert first.mean() == pytest.approx(2 * mean, abs=0.05 * np.sqrt(variance))
    assert first.var() == pytest.approx(4 * variance, rel=0.02)
    np.testing.assert_array_equal(first, operand(runner, problem, DataSpec(distribution=distribution, seed=3, scale=2)))
    assert np.any(first != operand(runner, problem, DataSpec(distribution=distribution, seed=4, scale=2.0)))


def test_short_operands_are_the_float32_ones_rounded_once(runner: CudaRunner) -> None:
    exact = operand(runner, Problem(200, 5, 333, "float32"), NORMAL).astype(np.float32)
    half = operand(runner, Problem(200, 5, 333, "float16"), NORMAL)
    brain = operand(runner, Problem(200, 5, 333, "bfloat16"), NORMAL)
    np.testing.assert_array_equal(half, exact.astype(np.float16).astype(np.float64))
    np.testing.assert_array_equal(brain, bfloat16.widen(bfloat16.narrow(exact)).astype(np.float64))
    eight = operand(runner, Problem(200, 5, 333, "float8_e4m3"), NORMAL)
    np.testing.assert_array_equal(eight, float8.widen(float8.narrow(exact)).astype(np.float64))


@pytest.mark.parametrize("dtype", ["float64", "int8"])
def test_zeros_are_zeros_and_their_product_passes(
    runner: CudaRunner, dtype: DTypeName, rng: np.random.Generator
) -> None:
    problem, zeros = Problem(100, 110, 120, dtype), DataSpec(distribution="zeros")
    assert not operand(runner, problem, zeros).any()
    with runner.bench(problem, zeros) as bench:
        bench.prepare(case(runner, "cublas", problem))
        assert passes(bench, problem, "cublas", rng)


# ---- checks ----
def passes(bench: Bench, problem: Problem, kernel: str, rng: np.random.Generator) -> bool:
    return bool(check(problem, BY_NAME[kernel].accuracy[problem.dtype], bench.matrices(), rng).passed)


@pytest.mark.parametrize("dtype", REAL_NAMES)
@pytest.mark.parametrize(("kernel", "reps"), [("naive", 1), ("cublas", 7)])
def test_a_poisoned_product_fails_and_the_last_one_timed_passes(
    runner: CudaRunner, kernel: str, reps: int, dtype: DTypeName, rng: np.random.Generator
) -> None:
    problem = Problem(300, 200, 500, dtype)
    if dtype not in BY_NAME[kernel].accuracy:  # one of the two takes it
        kernel = "naive" if kernel == "cublas" else "cublas"
    with runner.bench(problem, NORMAL) as bench:
        prepared = bench.prepare(case(runner, kernel, problem))
        assert passes(bench, problem, kernel, rng)
        bench.poison()
        assert not passes(bench, problem, kernel, rng)
        prepared.sample(reps, "cold")
        assert passes(bench, problem, kernel, rng)
        assert bench.largest_error_ratio() <= 1
        errors = bench.errors_vs_float64()
        assert (errors is None) == DTYPES[dtype].is_integer
        assert errors is None or errors.frobenius <= errors.worst_row < 40 * DTYPES[dtype].unit_roundoff


@pytest.mark.parametrize("kernel", ["cublas_tf32", "cublas_bf16", "cublas_fp16"])
def test_lowered_operands_are_within_what_their_class_explains(
    runner: CudaRunner, kernel: str, rng: np.random.Generator
) -> None:
    problem = Problem(1000, 900, 3000, "float32")
    if (reason := BY_NAME[kernel].unsupported_because(runner.device.traits)) is not None:
        pytest.skip(reason)
    with runner.bench(problem, NORMAL) as bench:
        bench.prepare(case(runner, kernel, problem))
        assert passes(bench, problem, kernel, rng)
        assert 0 < bench.largest_error_ratio() <= 1
        bench.poison()
        assert bench.largest_error_ratio() == float("inf")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_one_wrong_element_is_not_explained(runner: CudaRunner, dtype: DTypeName) -> None:
    from worker.cuda.bench.operands import view

    problem = Problem(5000, 300, 100, dtype)
    with runner.bench(problem, NORMAL) as bench:
        bench.prepare(case(runner, "naive", problem))
        assert bench.largest_error_ratio() <= 1
        c = view(bench.matrices().elementwise.c.matrix)  # type: ignore[attr-defined]  # it lies on the device
        c[4999, 299] = 0x4380 if dtype == "bfloat16" else c[4999, 299] + 256  # 256 in bfloat16
        assert bench.largest_error_ratio() > 1


# ---- copies, energy, what is seen ----
@pytest.mark.parametrize("pageable", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_copies_are_timed_and_change_nothing(
    runner: CudaRunner, dtype: DTypeName, pageable: bool, rng: np.random.Generator
) -> None:
    problem = Problem(4000, 3001, 2999, dtype)
    with runner.bench(problem, NORMAL) as bench:
        prepared = bench.prepare(case(runner, "cublas", problem))
        copies = bench.copies(pageable=pageable)
        assert copies is not None and copies.h2d_gb_s > 0 and copies.d2h_gb_s > 0
        assert copies.h2d_ms == pytest.approx(problem.operand_bytes / copies.h2d_gb_s / 1e6)
        assert passes(bench, problem, "cublas", rng)
        prepared.sample(1, "warm")
        assert passes(bench, problem, "cublas", rng)


def test_memory_is_given_back(runner: CudaRunner) -> None:
    import cupy

    pool = cupy.get_default_memory_pool()
    runner.cache.clear()
    before = pool.used_bytes()
    with runner.bench(SQUARE, NORMAL) as bench:
        bench.prepare(case(runner, "cublas", SQUARE)).sample(3, "cold")
        assert pool.used_bytes() > before + 3 * 4 * 2048**2
    assert pool.used_bytes() <= before


# ---- the device ----
def test_the_environment_is_told(runner: CudaRunner) -> None:
    found = runner.environment()
    assert found["gpu"] == runner.device.name and found["uuid"] and found["multiprocessors"] and found["l2_bytes"]
    assert found["versions"]["cublas"].count(".") == 2 and found["versions"]["driver"] and found["kernel_release"]
    assert {"power_limit_w", "ecc", "mig", "persistence_mode", "pcie", "clocks_mhz", "variables"} <= found.keys()
