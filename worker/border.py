"""The border of a product: the few rows and columns that a kernel leaves to a function apart (`kernels/border.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import cupy
import numpy as np

from kernels.border import MOST, border_launch, is_small
from kernels.numerics import Problem
from worker.compile import Compiler
from worker.device_memory import DeviceMatrix
from worker.sources import border_program


@cache
def _stream_beside() -> Any:
    """One for the process, which has one device."""
    return cupy.cuda.Stream(non_blocking=True)


class Border:
    """The function, and what it takes to run it beside the kernel: neither waits for the other's part of C."""

    def __init__(self, compiler: Compiler, problem: Problem, inner: Problem) -> None:
        """Raises KernelUnavailable."""
        self._problem, self._inner = problem, inner
        narrow = is_small(problem, inner)
        self._launch = border_launch(problem, inner, narrow=narrow)
        least = max(problem.m - inner.m, problem.n - inner.n)
        vectors = min(size for size in (1, 2, 4, MOST) if size >= least)
        self._function = compiler.function(border_program(problem, vectors, narrow=narrow), "border")
        self._stream = _stream_beside()
        self._forked, self._done = cupy.cuda.Event(disable_timing=True), cupy.cuda.Event(disable_timing=True)

    @contextmanager
    def beside(self, a: DeviceMatrix, b: DeviceMatrix, c: DeviceMatrix) -> Iterator[None]:
        """Writes C's rows and columns outside of the kernel's part, while what is put on the current stream inside of
        this goes on there. Operands lie as the problem says. Afterwards the stream waits for both."""
        current = cupy.cuda.get_current_stream()
        self._forked.record(current)
        self._stream.wait_event(self._forked)
        with self._stream:
            self._multiply(a, b, c)
        self._done.record(self._stream)
        try:
            yield
        finally:  # else memory of an operand might be given away while it is still read
            current.wait_event(self._done)

    def _multiply(self, a: DeviceMatrix, b: DeviceMatrix, c: DeviceMatrix) -> None:
        matrices, problem = (a, b, c), self._problem
        arguments = (
            *(np.uint64(matrix.address) for matrix in matrices),
            *(np.int64(size) for size in (problem.m, problem.n, problem.k)),
            *(np.int64(matrix.layout.pitch) for matrix in matrices),
            *(np.int64(matrix.layout.stride) for matrix in matrices),
            *(np.int64(size) for size in (problem.batch, self._inner.m, self._inner.n)),
        )
        self._function(self._launch.grid, self._launch.block, arguments)


def make_border(compiler: Compiler, problem: Problem, inner: Problem) -> Border | None:
    """None where `inner`, the kernel's part, is all there is. Raises KernelUnavailable."""
    return Border(compiler, problem, inner) if (inner.m, inner.n) != (problem.m, problem.n) else None
