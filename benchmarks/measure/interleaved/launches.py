"""Launches of products that several measurements compare, and their compilation."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.measure.interleaved.timing import Launch
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice

if TYPE_CHECKING:
    from worker.cuda.bench.operands import OperandSet
    from worker.cuda.library.cublas import Cublas
    from worker.cuda.runner import CudaRunner


def kernel_launch(runner: CudaRunner, kernel: CudaKernel, config: TileConfig, problem: Problem) -> Launch:
    """The launch of one of this project's kernels, compiled."""
    from worker.cuda.launch import prepare

    prepared = prepare(runner.compiler, kernel, config, problem)
    return lambda at: prepared.launch(at.a, at.b, at.c)


def library_launches(cublas: Cublas, problem: Problem, names: Iterable[str]) -> dict[str, Launch]:
    """The launches of cuBLAS's entries of the catalogue, by name."""

    def multiply(name: str, at: OperandSet) -> None:
        cublas.multiply(name, problem, at.a, at.b, at.c)

    return {name: partial(multiply, name) for name in names}


def job_config(runner: CudaRunner, kernel: CudaKernel, problem: Problem) -> TileConfig:
    """The config that a job gets for this product."""
    return kernel.resolve_config(NO_CONFIG, problem, runner.device.traits)


def compile_all(runner: CudaRunner, cases: Iterable[tuple[CudaKernel, TileConfig, Problem]]) -> None:
    """Compiles the kernels with their configs, on all cores. Raises KernelUnavailable."""
    runner.compile_ahead((Choice(kernel, config, ""), problem) for kernel, config, problem in cases)
