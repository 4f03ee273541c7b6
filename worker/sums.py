"""What the check of a product reads of a matrix: its rows times a vector, and single elements.

Each pass reads the matrix once. `HostMatrix` does it with numpy; the GPU worker has a twin with the same meaning
(`worker/device_sums.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from jobs.matrices import Array
from kernels.numerics import DTYPES, DTypeName
from worker.elements import as_float64, widen

BLOCK_ELEMENTS = 1 << 20  # of one block: what is widened of it takes at most 8 MiB
RUN = 64  # columns summed in the element type before a wider one takes over: keeps their rounding near one step
RUNS = 1024  # at most; longer rows have longer runs
TINY = {"float64": 1e-280, "float32": 1e-25}  # squares of rows below it may have underflowed
EXACT_FLOAT64 = 2**53


@dataclass(frozen=True, slots=True)
class Sums:
    """One pass over a matrix, each of shape (batch, rows). NaN and infinite elements are counted and left out."""

    products: Array  # float64: each row times the vector
    squares: Array  # float64: each row's sum of squares
    bad: Array  # int64: NaN and infinite elements of each row


class Matrix(Protocol):
    """A matrix of shape (batch, rows, columns) as it enters the product, that is after transposition."""

    @property
    def shape(self) -> tuple[int, int, int]: ...

    @property
    def dtype(self) -> DTypeName: ...

    def times(self, vector: Array, exponent: int = 0) -> Sums:
        """Sums over the elements times 2^-exponent. `vector` is float64, (batch or 1, columns)."""

    def times_modulo(self, vector: Array) -> Array:
        """Integers: each row times the int64 vector, modulo 2³², as int64 in ±2³¹."""

    def transposed(self) -> Self: ...

    def item(self, index: int) -> Self:
        """One matrix of the batch, with a batch axis of 1."""

    def elements(self, item: int, rows: Array, columns: Array) -> Array:
        """float64 of shape broadcast(rows, columns)."""


class OperandMatrix(Matrix, Protocol):
    """An operand: at hand in this process's memory too."""

    def largest(self) -> float:
        """Largest finite magnitude."""


class HostMatrix:
    """A matrix in this process's memory."""

    def __init__(self, array: Array, dtype: DTypeName) -> None:
        self.array = array  # (batch, rows, columns), any strides
        self.dtype = dtype
        self.shape: tuple[int, int, int] = (array.shape[0], array.shape[1], array.shape[2])

    def transposed(self) -> HostMatrix:
        return HostMatrix(self.array.swapaxes(1, 2), self.dtype)

    def item(self, index: int) -> HostMatrix:
        return HostMatrix(self.array[index % self.shape[0]][np.newaxis], self.dtype)

    def elements(self, item: int, rows: Array, columns: Array) -> Array:
        return as_float64(self.array[item % self.shape[0], rows, columns], self.dtype)

    def largest(self) -> float:
        peak = 0.0
        for at in self._blocks():
            values = as_float64(self.array[at], self.dtype)
            values[~np.isfinite(values)] = 0.0
            peak = max(peak, float(np.abs(values).max(initial=0.0)))
        return peak

    def times(self, vector: Array, exponent: int = 0) -> Sums:
        if exponent == 0 and (quick := self._quick(vector)) is not None:
            return quick
        return self._careful(vector, exponent)

    def _blocks(self) -> Iterator[tuple[slice, slice, slice]]:
        """Where to cut (items, rows, columns) so that a block has at most BLOCK_ELEMENTS."""
        batch, rows, columns = self.shape
        limit = BLOCK_ELEMENTS
        height = max(1, min(rows, limit // max(1, columns)))
        count = max(1, min(batch, limit // max(1, columns * rows)))
        for item in range(0, batch, count):
            for row in range(0, rows, height):
                for column in range(0, columns, limit):
                    yield slice(item, item + count), slice(row, row + height), slice(column, column + limit)

    def _aligned(self, at: tuple[slice, slice, slice], vector: Array) -> tuple[tuple[slice, slice], Array]:
        """Where a block's sums go, and its part of the vector; either may be one for the whole batch."""
        items, rows, columns = at
        if self.shape[0] == 1:
            return (slice(None), rows), vector[:, columns]
        return (items, rows), vector[:, columns] if len(vector) == 1 else vector[items, columns]

    def _empty(self, vector: Array) -> Sums:
        shape = (max(self.shape[0], len(vector)), self.shape[1])
        return Sums(np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.int64))

    def _quick(self, vector: Array) -> Sums | None:
        """In the element type where it has 32 or 64 bits; None where that met NaN, infinity or underflow."""
        sums = self._empty(vector)
        with np.errstate(all="ignore"):
            for at in self._blocks():
                target, part = self._aligned(at, vector)
                values = widen(self.array[at], self.dtype)
                squares = _row_squares(values)
                if np.any(values[squares < TINY[values.dtype.name]]):
                    return None
                sums.squares[target] += squares
                sums.products[target] += _in_runs(values, part)
        return sums if np.isfinite(sums.products).all() and np.isfinite(sums.squares).all() else None

    def _careful(self, vector: Array, exponent: int) -> Sums:
        """In float64 throughout, NaN and infinity apart."""
        sums = self._empty(vector)
        for at in self._blocks():
            target, part = self._aligned(at, vector)
            values = as_float64(self.array[at], self.dtype)
            finite = np.isfinite(values)
            values[~finite] = 0.0
            sums.bad[target] += (~finite).sum(axis=-1)
            with np.errstate(over="ignore", under="ignore"):
                values = np.ldexp(values, -exponent)
                sums.squares[target] += _row_squares(values)
                sums.products[target] += _in_runs(values, part)
        return sums

    def times_modulo(self, vector: Array) -> Array:
        products = np.zeros((max(self.shape[0], len(vector)), self.shape[1]), dtype=np.int64)
        peak = int(np.abs(vector).max(initial=0)) * 2 ** (8 * DTYPES[self.dtype].itemsize - 1)
        for at in self._blocks():
            target, part = self._aligned(at, vector)
            block = self.array[at]
            exact = np.float64 if peak * block.shape[-1] <= EXACT_FLOAT64 else np.int64  # int64 wraps: right modulo 2³²
            sums = np.matmul(block.astype(exact), part.astype(exact)[..., np.newaxis])[..., 0]
            products[target] += sums.astype(np.int64)
        return products.astype(np.int32).astype(np.int64)


def _row_squares(values: Array) -> Array:
    if values.strides[-1] == values.itemsize:
        squares: Array = np.vecdot(values, values)
    else:
        stored = values.swapaxes(-1, -2)  # a transposed view: walk it as it lies
        squares = np.einsum("bij,bij->bj", stored, stored)
    return squares


def _in_runs(values: Array, vector: Array) -> Array:
    """values·vector: runs of columns in the values' type by BLAS, their sums in a wider one."""
    batch, rows, columns = values.shape
    vector = vector.astype(values.dtype)
    run = max(RUN, -(-columns // RUNS))
    runs = columns // run
    cut = runs * run
    heads = values[..., :cut].reshape(batch, rows, runs, run).swapaxes(1, 2)  # (batch, runs, rows, run), not copied
    parts = np.matmul(heads, vector[:, :cut].reshape(len(vector), runs, run, 1))[..., 0]
    wider = np.float64 if values.dtype == np.float32 else np.longdouble
    total: Array = parts.sum(axis=1, dtype=wider)
    total += np.matmul(values[..., cut:], vector[:, cut:, np.newaxis])[..., 0]
    return total.astype(np.float64)
