"""The time of a product's job is the kernel's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.benchmarks.cases import Case
from jobs.benchmarks.spec import DataSpec
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG
from kernels.model.numerics import Problem
from kernels.selection.choose import choose
from worker.device.operands import HostOperand

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

SIZE = 1024


def product_ms(runner: CudaRunner, name: str, problem: Problem) -> float:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape, np.float32) for shape in ((problem.m, problem.k), (problem.k, problem.n)))
    choice = choose(name, NO_CONFIG, problem, "fp32", runner.device.traits)
    with runner.compute(problem, choice, HostOperand(a), HostOperand(b)) as product:
        for _ in product.chunks():
            pass
        return product.measured.kernel_ms


@pytest.mark.alone
@pytest.mark.parametrize("name", ["naive", "hopper_fp32", "fp32_emulated", "cublas"])
def test_it_is_what_a_benchmark_measures(runner: CudaRunner, name: str) -> None:
    """Warm, at a size that takes less than Python takes to launch; the first product too. Within a factor, since the
    clock moves."""
    problem, kernel = Problem(SIZE, SIZE, SIZE, "float32"), BY_NAME[name]
    if kernel.unsupported_because(runner.device.traits):
        pytest.skip("the device does not run it")
    times = sorted(product_ms(runner, name, problem) for _ in range(7))
    config = kernel.resolve_config(NO_CONFIG, problem, runner.device.traits)
    with runner.bench(problem, DataSpec(), alone=False) as bench:
        prepared = bench.prepare(Case(name, config, problem))
        benchmarked = sorted(prepared.sample(1, "warm").time_us / 1e3 for _ in range(7))
    assert times[3] <= 1.5 * benchmarked[3]
    assert times[3] >= 0.5 * benchmarked[3]


def test_a_gate_that_is_left_closed_opens_by_itself(runner: CudaRunner) -> None:
    import cupy

    from worker.cuda.gpu.launch_gate import LaunchGate

    gate = LaunchGate(runner.compiler, 0.001)
    gate.close()
    cupy.cuda.get_current_stream().synchronize()
    assert gate.gave_up
    gate.open()
    gate.close()
    gate.open()
    cupy.cuda.get_current_stream().synchronize()
    assert not gate.gave_up


def test_launching_is_not_in_the_time(runner: CudaRunner) -> None:
    """A launch that takes Python much longer than the device."""
    import time

    from worker.cuda.gpu.kernel_clock import KernelClock
    from worker.cuda.sources import benchmark_program

    clock = KernelClock(runner.compiler)
    spin = runner.compiler.function(benchmark_program(), "spin")

    def slow() -> None:
        for _ in range(2):
            spin((1,), (1,), (np.uint64(10_000),))
            time.sleep(0.002)  # as a slow host would take

    slow()
    assert clock.kernel_ms(slow, is_loaded=True) < 1.0 < clock._elapsed_ms(slow)
