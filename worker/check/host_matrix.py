"""A matrix in this process's memory, read by the check in blocks or by single elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, Self

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName
from worker.check.elements import as_float64, widen

BLOCK_ELEMENTS = 1 << 18  # of one block, which stays in a core's cache while it is read several times
AS_STORED = 4  # times as many are taken of elements that BLAS reads where they lie, once

At = tuple[slice, slice]  # items and rows of a block


class Matrix(Protocol):
    """A matrix of shape (batch, rows, columns) as it enters the product, that is after transposition."""

    @property
    def shape(self) -> tuple[int, int, int]: ...

    @property
    def dtype(self) -> DTypeName: ...

    def item(self, index: int) -> Self:
        """One matrix of the batch, with a batch axis of length 1."""

    def elements(self, item: int, rows: Array, columns: Array) -> Array:
        """float64 of shape broadcast(rows, columns)."""


class OperandMatrix(Matrix, Protocol):
    """An operand of the product."""

    def largest(self) -> float:
        """Largest finite magnitude."""


class HostMatrix:
    """Any strides; not copied."""

    def __init__(self, array: Array, dtype: DTypeName) -> None:
        self._array = array
        self.dtype = dtype
        self.shape: tuple[int, int, int] = (array.shape[0], array.shape[1], array.shape[2])

    @property
    def array(self) -> Array:
        """(batch, rows, columns)"""
        return self._array

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.array.itemsize

    def part(self, at: At) -> Array:
        """Some items and rows, in stored form."""
        return self.array[at]

    def transposed(self) -> HostMatrix:
        return HostMatrix(self.array.swapaxes(1, 2), self.dtype)

    def item(self, index: int) -> HostMatrix:
        return HostMatrix(self.array[index % self.shape[0]][np.newaxis], self.dtype)

    def elements(self, item: int, rows: Array, columns: Array) -> Array:
        return as_float64(self.array[item % self.shape[0], rows, columns], self.dtype)

    def largest(self) -> float:
        return max((float(np.abs(values).max(initial=0.0)) for _, values, _ in finite_blocks(self)), default=0.0)

    def blocks(self, times: int = 1) -> Iterator[At]:
        """The slices of items and rows that give blocks of whole rows with at most about that many BLOCK_ELEMENTS."""
        batch, rows, columns = self.shape
        height = max(1, min(rows, times * BLOCK_ELEMENTS // max(1, columns)))
        count = max(1, min(batch, times * BLOCK_ELEMENTS // max(1, columns * rows)))
        for item in range(0, batch, count):
            for row in range(0, rows, height):
                yield slice(item, item + count), slice(row, row + height)


def widened_blocks(matrix: HostMatrix, arithmetic: type[np.floating]) -> Iterator[tuple[At, Array]]:
    """The blocks in a type that BLAS supports, to be read once in the type `arithmetic`."""
    lies_there = type(matrix) is HostMatrix and matrix.array.dtype == arithmetic  # others are not simply an array
    for at in matrix.blocks(AS_STORED if lies_there else 1):
        yield at, widen(matrix.part(at), matrix.dtype)


def finite_blocks(matrix: HostMatrix) -> Iterator[tuple[At, Array, Array]]:
    """The blocks in float64, with zeros for NaN and infinities, and a mask of the finite elements."""
    for at in matrix.blocks():
        values = as_float64(matrix.part(at), matrix.dtype)
        finite = np.isfinite(values)
        if not finite.all():
            values[~finite] = 0.0
        yield at, values, finite
