"""A kernel of ours on the device: describe, decide, and here at last: launch."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobs.errors import KernelUnavailable
from kernels.kernel import CudaKernel, TileConfig
from kernels.numerics import Problem
from worker.compile import Compiler
from worker.device_memory import DeviceMatrix
from worker.sources import kernel_program

LARGEST_GRID = 2**31 - 1


def prepare(compiler: Compiler, kernel: CudaKernel, config: TileConfig, problem: Problem) -> Any:
    """The compiled function. Raises KernelUnavailable."""
    return compiler.function(kernel_program(kernel, config, problem), kernel.name)


def launch(
    function: Any,
    kernel: CudaKernel,
    config: TileConfig,
    problem: Problem,
    a: DeviceMatrix,
    b: DeviceMatrix,
    c: DeviceMatrix,
) -> None:
    """Puts the product on the current stream. Raises KernelUnavailable."""
    shape = kernel.launch(problem, config)
    if shape.grid[0] > LARGEST_GRID:
        raise KernelUnavailable(f"{kernel.name} would need {shape.grid[0]} blocks; take larger tiles.")
    function(shape.grid, shape.block, _arguments(problem, a, b, c), shared_mem=shape.shared_bytes)


def _arguments(problem: Problem, a: DeviceMatrix, b: DeviceMatrix, c: DeviceMatrix) -> tuple[np.generic, ...]:
    """In the order of every kernel's signature."""
    matrices = (a, b, c)
    return (
        *(np.uint64(matrix.address) for matrix in matrices),
        *(np.int64(size) for size in (problem.m, problem.n, problem.k)),
        *(np.int64(matrix.layout.pitch) for matrix in matrices),
        *(np.int64(matrix.layout.stride) for matrix in matrices),
        np.int64(problem.batch),
    )
