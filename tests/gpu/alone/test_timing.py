"""What is timed on the GPU is what is meant. Each of these needs it to itself."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.benchmarks.spec import CacheState
from jobs.errors import KernelUnavailable
from kernels.model.numerics import Problem
from tests.gpu.test_benchmark import NORMAL, SQUARE, case

if TYPE_CHECKING:
    from worker.cuda.bench.sampler import Sampler
    from worker.cuda.runner import CudaRunner
    from worker.device.bench import Prepared

pytestmark = pytest.mark.alone
THIN = Problem(8, 2048, 2048, "float32")  # bound by reading B, which any L2 of 16 MiB holds


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


@pytest.mark.parametrize("us", [500, 2000])
@pytest.mark.parametrize("reps", [1, 4])
def test_a_kernel_of_known_time_takes_it(
    sampler: Sampler, spin: Callable[[int], Callable[[int], None]], us: int, reps: int
) -> None:
    times = [sampler.sample(spin(us * 1000), reps, "cold").time_us for _ in range(9)]
    assert median(times) == pytest.approx(us, rel=0.02)


def test_a_launch_that_waits_for_the_device_spoils_the_sample_and_no_more(
    sampler: Sampler, spin: Callable[[int], Callable[[int], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import cupy

    monkeypatch.setattr("worker.cuda.bench.sampler.HOLD_S", 0.2)
    with pytest.raises(KernelUnavailable, match="waits for the device"):
        sampler.sample(lambda _: cupy.cuda.get_current_stream().synchronize(), 1, "warm")
    assert sampler.sample(spin(500_000), 1, "warm").time_us == pytest.approx(500, rel=0.05)


def test_a_launch_that_fails_lets_the_device_go(sampler: Sampler) -> None:
    def fail(_: int) -> None:
        raise ValueError("as a launch may")

    with pytest.raises(ValueError, match="as a launch may"):
        sampler.sample(fail, 1, "warm")
    assert sampler.sample(lambda _: None, 1, "warm").time_us < 1000


def test_the_clock_is_one_that_the_device_runs_at(
    runner: CudaRunner, sampler: Sampler, spin: Callable[[int], Callable[[int], None]]
) -> None:
    clocks = [sampler.sample(spin(1_000_000), 1, "warm").sm_clock_mhz for _ in range(5)]
    highest = runner.environment()["clocks_mhz"]["sm_max"] or runner.device.max_clock_mhz
    assert highest is not None
    assert all(clock is not None and 100 < clock < 1.02 * highest for clock in clocks), clocks


def test_a_cold_cache_is_no_faster_than_a_warm_one(runner: CudaRunner) -> None:
    with runner.bench(THIN, NORMAL) as bench:
        prepared = bench.prepare(case(runner, "cublas", THIN))
        for reps in (1, 20):
            cold, warm = typical_us(prepared, reps, "cold"), typical_us(prepared, reps, "warm")
            assert cold > 1.05 * warm, (reps, cold, warm)


@pytest.mark.parametrize("cache", ["cold", "warm"])
@pytest.mark.parametrize("kernel", ["cublas", "register_tiled"])
def test_several_launches_agree_with_one(runner: CudaRunner, kernel: str, cache: CacheState) -> None:
    with runner.bench(SQUARE, NORMAL) as bench:
        prepared = bench.prepare(case(runner, kernel, SQUARE))
        assert typical_us(prepared, 5, cache) == pytest.approx(typical_us(prepared, 1, cache), rel=0.1)


def test_a_launch_costs_the_host_little_and_says_what_it_takes(runner: CudaRunner) -> None:
    with runner.bench(SQUARE, NORMAL) as bench:
        ours = bench.prepare(case(runner, "register_tiled", SQUARE))
        assert 0 < ours.sample(10, "warm").launch_us < 1000
        took = ours.launch
        assert took.registers and took.resident_blocks and took.grid and took.block and ours.compile_ms > 0
        assert took.occupancy is not None and 0 < took.occupancy <= 1 and took.waves and took.local_bytes is not None
        library = bench.prepare(case(runner, "cublas", SQUARE))
        assert library.launch.registers is None and library.launch.grid is None


def test_energy_is_positive_or_unknown(runner: CudaRunner) -> None:
    with runner.bench(SQUARE, NORMAL) as bench:
        prepared = bench.prepare(case(runner, "cublas", SQUARE))
        used_mj = bench.energy_mj(prepared, 0.5)
        seconds = typical_us(prepared, 1, "warm") / 1e6
    assert used_mj is None or 1 < used_mj / 1e3 / seconds < 3000, "watts"


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
