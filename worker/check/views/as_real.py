"""A complex product as the equivalent real product, so that one check serves both (`Problem.as_real`).

A row of A, (Re aᵢ₁, Im aᵢ₁, Re aᵢ₂, …), and a row of C are as they are stored. Each element b = r + is of B becomes the
2×2 block of its multiplication,

    r   s
    −s  r

so that each part of each element of C is a sum of 2k real terms, to which its class's bound applies. Conjugates change
signs in these blocks: that of B negates s, that of A the second row. B is not copied as a whole: its blocks are made
when they are read.
"""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.numerics import DTYPES, DTypeName, Problem
from worker.check.elements import as_float64
from worker.check.host_matrix import At, HostMatrix

Signs = tuple[tuple[int, int], tuple[int, int]]  # of a block, row by row


def real_view(elements: Array) -> Array:
    """(…, columns) complex as (…, 2·columns) real: not copied, unless rows are not contiguous."""
    real = elements.real.dtype
    if elements.strides[-1] != elements.itemsize:
        elements = np.ascontiguousarray(elements)
    view: Array = elements.view(real)
    return view


def signs_of(problem: Problem) -> Signs:
    """The signs of the blocks that elements of B become."""
    of_a, of_b = (-1 if conjugated else 1 for conjugated in (problem.conjugate_a, problem.conjugate_b))
    return (1, of_b), (-of_a * of_b, of_a)


def in_blocks(elements: Array, signs: Signs) -> Array:
    """(items, rows, columns) complex as (items, 2·rows, 2·columns) real."""
    items, rows, columns = elements.shape
    made = np.empty((items, rows, 2, columns, 2), elements.real.dtype)
    for i, of_row in enumerate(signs):
        for j, sign in enumerate(of_row):
            part = elements.real if i == j else elements.imag
            np.multiply(part, part.dtype.type(sign), out=made[:, :, i, :, j])
    return made.reshape(items, 2 * rows, 2 * columns)


class RealView(HostMatrix):
    """A or C. `source` is opened when its elements are asked for."""

    def __init__(self, source: HostMatrix) -> None:
        items, rows, columns = source.shape
        self.dtype: DTypeName = DTYPES[source.dtype].real
        self.shape = (items, rows, 2 * columns)
        self._source = source

    @property
    def array(self) -> Array:
        return real_view(self._source.array)


class InBlocks(HostMatrix):
    """B. `source` is opened when its elements are asked for."""

    def __init__(self, source: HostMatrix, signs: Signs) -> None:
        items, rows, columns = source.shape
        self.dtype = DTYPES[source.dtype].real
        self.shape = (items, 2 * rows, 2 * columns)
        self._source, self._signs = source, signs

    @property
    def itemsize(self) -> int:
        return STORAGE_DTYPES[self.dtype].itemsize

    def transposed(self) -> HostMatrix:
        (first, second), (third, fourth) = self._signs
        return InBlocks(self._source.transposed(), ((first, third), (second, fourth)))

    def item(self, index: int) -> HostMatrix:
        return InBlocks(self._source.item(index), self._signs)

    def part(self, at: At) -> Array:
        items, rows = at
        first, stop = rows.start, min(rows.stop, self.shape[1])
        whole = slice(first // 2, -(-stop // 2))
        made = in_blocks(self._source.part((items, whole)), self._signs)
        return made[:, first - 2 * whole.start : stop - 2 * whole.start]

    def elements(self, item: int, rows: Array, columns: Array) -> Array:
        source = self._source
        found = source.array[item % source.shape[0], rows // 2, columns // 2]
        i, j = rows % 2, columns % 2
        parts = np.where(i == j, found.real, found.imag)
        signed: Array = as_float64(parts, self.dtype) * np.array(self._signs, np.float64)[i, j]
        return signed


def real_matrices(
    problem: Problem, a: HostMatrix, b: HostMatrix, c: HostMatrix
) -> tuple[HostMatrix, HostMatrix, HostMatrix]:
    """The three matrices of a product, transposed as it has them, as those of `problem.as_real`."""
    if not DTYPES[problem.dtype].is_complex:
        return a, b, c
    return RealView(a), InBlocks(b, signs_of(problem)), RealView(c)
