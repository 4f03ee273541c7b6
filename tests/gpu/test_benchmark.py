"""Kernels timed on the GPU: what is timed is what is meant, and what is checked is what was timed."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.benchmarks.cases import Case
from jobs.benchmarks.spec import CacheState, DataDistribution, DataSpec
from jobs.errors import KernelUnavailable
from jobs.formats import bfloat16, float8
from jobs.formats.elements import Array
from kernels.catalog import BY_NAME
from kernels.model.kernel import NO_CONFIG
from kernels.model.numerics import DTYPES, REAL_NAMES, DTypeName, Problem
from worker.check.verify import check

if TYPE_CHECKING:
    from worker.cuda.bench.sampler import Sampler
    from worker.cuda.runner import CudaRunner
    from worker.device.bench import Bench, Prepared

NORMAL = DataSpec()
SQUARE = Problem(2048, 2048, 2048, "float32")  # some hundred microseconds on a large device
THIN = Problem(8, 2048, 2048, "float32")  # bound by reading B, which any L2 of 16 MiB holds


def case(runner: CudaRunner, kernel: str, problem: Problem) -> Case:
    return Case(kernel, dict(BY_NAME[kernel].resolve_config(NO_CONFIG, problem, runner.device.traits)), problem)


def typical_us(prepared: Prepared, reps: int, cache: CacheState) -> float:
    """After as many that do not count."""
    times = [prepared.sample(reps, cache).time_us for _ in range(22)]
    return median(times[11:])


@pytest.fixture
def sampler(runner: CudaRunner) -> Sampler:
    from worker.cuda.bench.sampler import Sampler

    return Sampler(runner.compiler, runner.device.l2_bytes, runner.device.multiprocessors or 1)


@pytest.fixture
def spin(runner: CudaRunner) -> Callable[[int], Callable[[int], None]]:
    """A launch that takes so many nanoseconds, loaded already."""
    from worker.cuda.sources import benchmark_program

    function = runner.compiler.function(benchmark_program(), "spin")
    function((1,), (1,), (np.uint64(1000),))
    return lambda ns: lambda _: function((1,), (1,), (np.uint64(ns),))


# ---- time ----
@pytest.mark.alone
@pytest.mark.parametrize("us", [500, 2000])
@pytest.mark.parametrize("reps", [1, 4])
def test_a_kernel_of_known_time_takes_it(
    sampler: Sampler, spin: Callable[[int], Callable[[int], None]], us: int, reps: int
) -> None:
    times = [sampler.sample(spin(us * 1000), reps, "cold").time_us for _ in range(9)]
    assert median(times) == pytest.approx(us, rel=0.02)


@pytest.mark.alone
def test_a_launch_that_waits_for_the_device_spoils_the_sample_and_no_more(
    sampler: Sampler, spin: Callable[[int], Callable[[int], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import cupy

    monkeypatch.setattr("worker.cuda.bench.sampler.HOLD_S", 0.2)
    with pytest.raises(KernelUnavailable, match="waits for the device"):
        sampler.sample(lambda _: cupy.cuda.get_current_stream().synchronize(), 1, "warm")
    assert sampler.sample(spin(500_000), 1, "warm").time_us == pytest.approx(500, rel=0.05)


@pytest.mark.alone
def test_a_launch_that_fails_lets_the_device_go(sampler: Sampler) -> None:
    def fail(_: int) -> None:
        raise ValueError("as a launch may")

    with pytest.raises(ValueError, match="as a launch may"):
        sampler.sample(fail, 1, "warm")
    assert sampler.sample(lambda _: None, 1, "warm").time_us < 1000


@pytest.mark.alone
def test_the_clock_is_one_that_the_device_runs_at(
    runner: CudaRunner, sampler: Sampler, spin: Callable[[int], Callable[[int], None]]
) -> None:
    clocks = [sampler.sample(spin(1_000_000), 1, "warm").sm_clock_mhz for _ in range(5)]
    highest = runner.environment()["clocks_mhz"]["sm_max"] or runner.device.max_clock_mhz
    assert highest is not None
    assert all(clock is not None and 100 < clock < 1.02 * highest for clock in clocks), clocks


@pytest.mark.alone
def test_a_cold_cache_is_no_faster_than_a_warm_one(runner: CudaRunner) -> None:
    with runner.bench(THIN, NORMAL) as bench:
        prepared = bench.prepare(case(runner, "cublas", THIN))
        for reps in (1, 20):
            cold, warm = typical_us(prepared, reps, "cold"), typical_us(prepared, reps, "warm")
            assert cold > 1.05 * warm, (reps, cold, warm)


@pytest.mark.alone
@pytest.mark.parametrize("cache", ["cold", "warm"])
@pytest.mark.parametrize("kernel", ["cublas", "register_tiled"])
def test_several_launches_agree_with_one(runner: CudaRunner, kernel: str, cache: CacheState) -> None:
    with runner.bench(SQUARE, NORMAL) as bench:
        prepared = bench.prepare(case(runner, kernel, SQUARE))
        assert typical_us(prepared, 5, cache) == pytest.approx(typical_us(prepared, 1, cache), rel=0.1)


@pytest.mark.alone
def test_a_launch_costs_the_host_little_and_says_what_it_takes(runner: CudaRunner) -> None:
    with runner.bench(SQUARE, NORMAL) as bench:
        ours = bench.prepare(case(runner, "register_tiled", SQUARE))
        assert 0 < ours.sample(10, "warm").launch_us < 1000
        took = ours.launch
        assert took.registers and took.resident_blocks and took.grid and took.block and ours.compile_ms > 0
        assert took.occupancy is not None and 0 < took.occupancy <= 1 and took.waves and took.local_bytes is not None
        library = bench.prepare(case(runner, "cublas", SQUARE))
        assert library.launch.registers is None and library.launch.grid is None


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
        assert copies is not None and copies.h2d_gb_s > 1 and copies.d2h_gb_s > 1
        assert copies.h2d_ms == pytest.approx(problem.operand_bytes / copies.h2d_gb_s / 1e6)
        assert passes(bench, problem, "cublas", rng)
        prepared.sample(1, "warm")
        assert passes(bench, problem, "cublas", rng)


@pytest.mark.alone
def test_energy_is_positive_or_unknown(runner: CudaRunner) -> None:
    with runner.bench(SQUARE, NORMAL) as bench:
        prepared = bench.prepare(case(runner, "cublas", SQUARE))
        used_mj = bench.energy_mj(prepared, 0.5)
        seconds = typical_us(prepared, 1, "warm") / 1e6
    assert used_mj is None or 1 < used_mj / 1e3 / seconds < 3000, "watts"


@pytest.mark.alone
def test_what_is_watched_is_plausible(runner: CudaRunner) -> None:
    with runner.bench(SQUARE, NORMAL) as bench:
        prepared = bench.prepare(case(runner, "cublas", SQUARE))
        with bench.watch() as watched:
            for _ in range(300):
                prepared.sample(1, "cold")
        assert bench.default_clock_mhz is None or bench.default_clock_mhz > 100
    state = watched.state
    assert not watched.contended, "another process is on the device, or this one does not find itself"
    assert state.temp_c_max is None or (state.temp_c_start is not None and 0 < state.temp_c_start <= state.temp_c_max)
    assert state.power_w_mean is None or 1 < state.power_w_mean < 3000
    assert state.mem_clock_mhz is None or state.mem_clock_mhz > 100
    assert all(held_ns >= 0 for held_ns in state.event_reason_ns.values())


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


@pytest.mark.alone
def test_roofs_are_below_what_the_device_can_do(runner: CudaRunner) -> None:
    roofs = {roof.name: roof for roof in runner.ceilings()}
    print({name: (roof.value, roof.theoretical, roof.sm_clock_mhz, roof.reason) for name, roof in roofs.items()})
    assert {"dram_copy", "dram_triad", "l2_copy", "fma_float32", "fma_float64", "fma_float16", "fma_int32"} <= set(
        roofs
    )
    assert {
        "gemm_float64",
        *(f"tensor_{name}" for name in ("float16", "bfloat16", "tf32", "int8", "float8_e4m3")),
    } <= set(roofs)
    assert {"pcie_h2d", "pcie_d2h"} <= set(roofs)
    for roof in roofs.values():
        assert (roof.value is None) == (roof.reason is not None)
        if roof.value is not None and roof.theoretical is not None:
            assert 0.1 * roof.theoretical < roof.value < 1.02 * roof.theoretical, roof
    copy, l2 = roofs["dram_copy"].value, roofs["l2_copy"].value
    assert copy is not None and l2 is not None and l2 > copy
