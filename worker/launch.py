"""A kernel of ours on the device: describe, decide, and here at last: launch."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from cupy_backends.cuda.api import driver

from jobs.errors import KernelUnavailable
from kernels.kernel import CudaKernel, TileConfig
from kernels.numerics import Problem
from worker.compile import Compiler
from worker.device_memory import DeviceMatrix
from worker.sources import kernel_program

LARGEST_GRID = 2**31 - 1
STATIC_SHARED_BYTES = 48 << 10  # a block that wants more has to be allowed it first
MAX_DYNAMIC_SHARED_BYTES = 8  # the driver's number for that attribute of a function


def prepare(compiler: Compiler, kernel: CudaKernel, config: TileConfig, problem: Problem) -> Any:
    """The compiled function. Raises KernelUnavailable."""
    function = compiler.function(kernel_program(kernel, config, problem), kernel.name)
    shared_bytes = kernel.launch(problem, config).shared_bytes
    if shared_bytes > STATIC_SHARED_BYTES:
        driver.funcSetAttribute(function.ptr, MAX_DYNAMIC_SHARED_BYTES, shared_bytes)
    return function


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
    arguments, workspace = _arguments(problem, a, b, c), _workspace(kernel, config, problem)
    if workspace is not None:
        arguments = (*arguments, np.uint64(workspace.ptr))
    function(shape.grid, shape.block, arguments, shared_mem=shape.shared_bytes)


def _workspace(kernel: CudaKernel, config: TileConfig, problem: Problem) -> Any:
    """Memory for a kernel that needs some, else None. It may be let go once the kernel is on the stream: whoever CuPy's
    pool gives it to next is on that stream too."""
    if kernel.workspace is None:
        return None
    need = kernel.workspace(problem, config)
    memory = cupy.cuda.alloc(max(need.bytes, 1))
    if need.zeroed_bytes:
        memory.memset_async(0, need.zeroed_bytes)
    return memory


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
