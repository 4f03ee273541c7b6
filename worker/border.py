"""The border of a product: the few rows and columns that a kernel leaves to a function apart (`kernels/border.py`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.border import MOST, border_launch
from kernels.numerics import Problem
from worker.compile import Compiler
from worker.device_memory import DeviceMatrix
from worker.sources import border_program


def border_function(compiler: Compiler, problem: Problem, inner: Problem) -> Any | None:
    """None where `inner`, the kernel's part, is all there is. Raises KernelUnavailable."""
    vectors = max(problem.m - inner.m, problem.n - inner.n)
    if not vectors:
        return None
    return compiler.function(
        border_program(problem, min(size for size in (1, 2, 4, MOST) if size >= vectors)), "border"
    )


def multiply_border(
    function: Any, problem: Problem, inner: Problem, a: DeviceMatrix, b: DeviceMatrix, c: DeviceMatrix
) -> None:
    """Writes C's rows and columns outside of `inner` on the current stream. Operands lie as the problem says."""
    matrices = (a, b, c)
    launch = border_launch(problem, inner)
    arguments = (
        *(np.uint64(matrix.address) for matrix in matrices),
        *(np.int64(size) for size in (problem.m, problem.n, problem.k)),
        *(np.int64(matrix.layout.pitch) for matrix in matrices),
        *(np.int64(matrix.layout.stride) for matrix in matrices),
        *(np.int64(size) for size in (problem.batch, inner.m, inner.n)),
    )
    function(launch.grid, launch.block, arguments)
