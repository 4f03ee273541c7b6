"""Measures the speed of what `auto` takes for float32 products of random shapes on operands of several kinds, compared
with the library and the best kernel that multiplies in float32 itself.

    python -m benchmarks.measure.operand_speed --out benchmarks/results/h200_operand_speed.json.gz

`fp32_emulated` decides on the device, from the operands, how much work a product takes, and leaves some products to
`hopper_fp32`. Operands are made on the device; rows have the service's pitch. Cold cache, launches queued before they
are timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from secrets import randbelow
from typing import TYPE_CHECKING, Any

from benchmarks.measure.auto_sample import MIN_SIZE, Shape, draw
from benchmarks.measure.interleaved.timing import Launch, median_ms, sampler_of
from benchmarks.recorded import record_rows
from jobs.benchmarks.spec import DataSpec
from jobs.settings import Settings
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from kernels.selection.choose import choose
from worker.cpu.environment import dated_environment

if TYPE_CHECKING:
    from worker.cuda.bench.operands import OperandSet

SHAPES, LARGEST, SAMPLES = 40, 8192, 15
SIGMAS = (0, 1, 2, 3, 5)  # of log-normal operands; 0 stands for normal ones
RIVALS = ("cublas", "hopper_fp32")
PACKAGES = ("cupy-cuda13x", "numpy")


class GpuKernels:
    """Kernels on the first GPU, by the choice that names one."""

    def __init__(self) -> None:
        from worker.cuda.library.cublas import Cublas
        from worker.cuda.runner import CudaRunner

        self.runner: CudaRunner = CudaRunner(Settings(device="gpu:0"))
        self.sampler, self._cublas = sampler_of(self.runner), Cublas(self.runner.compiler)

    def choice(self, kernel: str, problem: Problem) -> Choice:
        return choose(kernel, {}, problem, "fp32", self.runner.device.traits)

    def compile(self, kernel: str, problems: Sequence[Problem]) -> None:
        """Compiles all kernels that they need."""
        self.runner.compile_ahead((self.choice(name, each), each) for each in problems for name in (kernel, *RIVALS))

    def launch(self, choice: Choice, problem: Problem) -> Launch:
        from worker.cuda.launch import prepare

        kernel, config = choice.kernel, choice.config
        if not isinstance(kernel, CudaKernel):
            return lambda at: self._cublas.multiply(kernel.name, problem, at.a, at.b, at.c)
        prepared = prepare(self.runner.compiler, kernel, config, problem)
        return lambda at: prepared.launch(at.a, at.b, at.c)


def operands(kernels: GpuKernels, problem: Problem, seed: int, sigma: int) -> OperandSet:
    """Normal numbers z, or ±exp(σ·z) with signs at random."""
    import cupy

    from worker.cuda.bench.operands import random_set, view

    made = random_set(kernels.runner.compiler, problem, DataSpec(seed=seed))
    signs = cupy.random.default_rng(seed)
    for matrix in (made.a, made.b) if sigma else ():
        elements = view(matrix)
        negative = signs.integers(0, 2, elements.shape, dtype=cupy.int8) > 0
        elements[...] = cupy.exp(elements * sigma) * cupy.where(negative, -1, 1).astype(elements.dtype)
    return made


def measured(kernels: GpuKernels, kernel: str, shapes: Sequence[Shape], seed: int) -> Iterator[Mapping[str, Any]]:
    """A row for each shape and kind of operands: times in milliseconds, by kernel."""
    for number, (m, n, k) in enumerate(shapes):
        problem = Problem(m, n, k, "float32")
        auto = kernels.choice(kernel, problem)
        choices = [auto, *(kernels.choice(name, problem) for name in RIVALS)]
        launches = [kernels.launch(choice, problem) for choice in choices]
        for sigma in SIGMAS:
            at = operands(kernels, problem, seed + number, sigma)
            times = median_ms(kernels.sampler, launches, at, SAMPLES)
            by_name = dict(zip(("auto", *RIVALS), (round(ms, 6) for ms in times), strict=True))
            yield {"m": m, "n": n, "k": k, "sigma": sigma, "kernel": auto.kernel.name, "ms": by_name}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kernel", default="auto", help="what is compared; what `auto` takes, by default")
    parser.add_argument("--shapes", type=int, default=SHAPES)
    parser.add_argument("--least", type=int, default=MIN_SIZE, help="the smallest size")
    parser.add_argument("--seed", type=int, default=randbelow(2**31))
    parser.add_argument("--sizes", type=int, nargs="*", default=(), help="square products of these, before the others")
    asked = parser.parse_args()
    kernels = GpuKernels()
    shapes = (*((n, n, n) for n in asked.sizes), *draw(asked.shapes, asked.seed, LARGEST, asked.least))
    kernels.compile(asked.kernel, [Problem(*shape, "float32") for shape in shapes])
    about = {"environment": dated_environment(*PACKAGES), "device": kernels.runner.device.name, "seed": asked.seed}
    record_rows(asked.out, about, measured(kernels, asked.kernel, shapes, asked.seed))


if __name__ == "__main__":
    main()
