"""The edge of a product: the few rows and columns that a kernel leaves to a separate function
(`kernels/model/edge.py`)."""

from __future__ import annotations

import numpy as np

from kernels.model.edge import edge_launch, is_small
from kernels.model.numerics import Problem
from worker.cuda.compile import Compiler
from worker.cuda.dependent_launch import launch_dependent
from worker.cuda.memory import DeviceMatrix
from worker.cuda.sources import Program, edge_program_of


class Edge:
    """The function, and how it is launched: neither it nor the kernel waits for the other's part of C."""

    def __init__(self, compiler: Compiler, program: Program, problem: Problem, inner: Problem) -> None:
        """Raises KernelUnavailable."""
        self._problem, self._inner = problem, inner
        self._launch = edge_launch(problem, inner, narrow=is_small(problem, inner))
        self._function = compiler.function(program, "edge")

    def multiply(self, a: DeviceMatrix, b: DeviceMatrix, c: DeviceMatrix) -> None:
        """Writes C's rows and columns outside of the kernel's part, on multiprocessors that the kernel before it on the
        stream leaves. Operands lie as the problem says. Whoever waits for it waits for both. Raises DeviceFault."""
        matrices, problem = (a, b, c), self._problem
        arguments = (
            *(np.uint64(matrix.address) for matrix in matrices),
            *(np.int64(size) for size in (problem.m, problem.n, problem.k)),
            *(np.int64(matrix.layout.pitch) for matrix in matrices),
            *(np.int64(matrix.layout.stride) for matrix in matrices),
            *(np.int64(size) for size in (problem.batch, self._inner.m, self._inner.n)),
        )
        launch_dependent(self._function, self._launch.grid, self._launch.block, arguments)


def make_edge(compiler: Compiler, problem: Problem, inner: Problem) -> Edge | None:
    """None where `inner`, the kernel's part, is all there is. Raises KernelUnavailable."""
    program = edge_program_of(problem, inner)
    return None if program is None else Edge(compiler, program, problem, inner)
