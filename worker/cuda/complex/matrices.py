"""Complex operands as real ones, for a kernel and for the check, which use different conversion functions."""

from __future__ import annotations

import cupy
import numpy as np

from kernels.model.numerics import DTYPES, Problem
from worker.cuda.check.matrices import CheckedMatrices, MatrixOnDevice
from worker.cuda.compile import Compiler
from worker.cuda.complex.arrangement import (
    Arrangement,
    blocks_of_b,
    finite_launch,
    finite_numbers,
    real_layout,
    rows_of_a,
)
from worker.cuda.memory import DeviceMatrix, allocate, clear_padding
from worker.cuda.results import DeviceResults
from worker.cuda.sources import complex_check_program, complex_finite_program, complex_layout_program

WORD_BYTES = 4


def as_real(matrix: DeviceMatrix) -> DeviceMatrix:
    """The same memory with parts as elements; its padding is zero."""
    real = DeviceMatrix(real_layout(matrix.layout), matrix.memory)
    clear_padding(real)
    return real


def is_finite(compiler: Compiler, matrix: DeviceMatrix) -> bool:
    """Whether all elements of a complex matrix are. Waits for the current stream."""
    real = real_layout(matrix.layout)
    found = cupy.cuda.alloc(WORD_BYTES)
    found.memset_async(0, WORD_BYTES)
    planned, numbers = finite_launch(real), map(np.int64, finite_numbers(real))
    function = compiler.function(complex_finite_program(real.dtype), "complex_finite")
    function(planned.grid, planned.block, (np.uint64(matrix.address), np.uint64(found.ptr), *numbers))
    return not DeviceResults(compiler, found, 0, WORD_BYTES).start().wait().any()


class RealOperands:
    """A and B of a complex product as those of `problem.as_real`; written by `arrange`, as often as wanted."""

    def __init__(
        self, compiler: Compiler, problem: Problem, a: DeviceMatrix, b: DeviceMatrix, *, for_check: bool = False
    ) -> None:
        """Raises cupy's OutOfMemoryError."""
        self._compiler, self._for_check = compiler, for_check
        of_a, of_b = rows_of_a(problem, a.layout), blocks_of_b(problem, b.layout)
        self.a = as_real(a) if of_a is None else allocate(of_a.to)
        self.b = allocate(of_b.to)
        both = (of_a, a, self.a), (of_b, b, self.b)
        self._arranged = [(how, source, made) for how, source, made in both if how is not None]

    def on_device(self, problem: Problem, c: DeviceMatrix) -> CheckedMatrices:
        """These and C, as the check reads them."""
        real, (of_a, of_b) = problem.as_real, (each.layout.batch for each in (self.a, self.b))
        return CheckedMatrices(
            MatrixOnDevice(self._compiler, self.a, (of_a, real.m, real.k)),
            MatrixOnDevice(self._compiler, self.b, (of_b, real.k, real.n)),
            MatrixOnDevice(self._compiler, as_real(c), (real.batch, real.m, real.n)),
        )

    def arrange(self, gate: int | None = None) -> None:
        """Writes the operands, on the current stream. `gate`: the address of a word on the device that says whether
        they are needed."""
        for how, source, made in self._arranged:
            if self._for_check:
                _check_arranged(self._compiler, how, source, made)
            else:
                write(self._compiler, how, source, made, gate)

    def behind(self, gate: int) -> tuple[DeviceMatrix, DeviceMatrix]:
        """Arranges both operands if the previous kernel left them to the next one."""
        self.arrange(gate)
        return self.a, self.b


def write(
    compiler: Compiler, how: Arrangement, source: DeviceMatrix, made: DeviceMatrix, gate: int | None = None
) -> None:
    """Writes the operand with the function that products use, on the current stream."""
    if not (how.rows and how.columns):
        return
    program = complex_layout_program(DTYPES[source.layout.dtype].real, gated=gate is not None)
    words = () if gate is None else (np.uint64(gate),)
    addresses = np.uint64(source.address), np.uint64(made.address)
    function = compiler.function(program, how.function)
    function(how.launch.grid, how.launch.block, (*addresses, *map(np.int64, how.numbers), *words))


def _check_arranged(compiler: Compiler, how: Arrangement, source: DeviceMatrix, made: DeviceMatrix) -> None:
    if not (how.rows and how.columns):
        return
    function = compiler.function(complex_check_program(DTYPES[source.layout.dtype].real), "complex_check")
    addresses = np.uint64(source.address), np.uint64(made.address)
    function(how.check_launch.grid, how.check_launch.block, (*addresses, *map(np.int64, how.check_numbers)))


def conjugated(compiler: Compiler, how: Arrangement, matrix: DeviceMatrix) -> DeviceMatrix:
    """A copy with the same layout."""
    copy = DeviceMatrix(matrix.layout, cupy.cuda.alloc(max(matrix.layout.bytes, 1)))
    write(compiler, how, matrix, copy)
    return copy
