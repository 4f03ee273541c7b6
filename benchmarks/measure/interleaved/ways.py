"""Ways to compute a product that several measurements compare."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.measure.interleaved.timing import Put
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem

if TYPE_CHECKING:
    from worker.cuda.bench.operands import OperandSet
    from worker.cuda.library.cublas import Cublas
    from worker.cuda.runner import CudaRunner


def own_way(runner: CudaRunner, kernel: CudaKernel, config: TileConfig, problem: Problem) -> Put:
    """A kernel of ours, compiled."""
    from worker.cuda.launch import prepare

    prepared = prepare(runner.compiler, kernel, config, problem)
    return lambda at: prepared.launch(at.a, at.b, at.c)


def library_ways(cublas: Cublas, problem: Problem, names: Iterable[str]) -> dict[str, Put]:
    """cuBLAS's entries of the catalogue, by name."""

    def multiply(name: str, at: OperandSet) -> None:
        cublas.multiply(name, problem, at.a, at.b, at.c)

    return {name: partial(multiply, name) for name in names}
