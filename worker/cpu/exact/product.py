"""Correctly rounded products: each element is the exact sum of its exact terms, rounded once.

Such a product does not depend on how it is computed: not on the order of summation, the number of threads, the sizes of
blocks, or the device. Operands are cut into slices (`slices.py`); products of slices are exact in float64, by BLAS;
those whose places agree are added up as whole numbers, the limbs of a sum (`rounding.py`).

Not all of them are needed. A pass takes the slices that lie highest, as many levels as most elements take, and bounds
what it leaves out. Where both ends of that interval round to the same number, it is the product. Rows and columns with
other elements go through another pass of more levels, at last of all there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.numerics import Problem
from worker.check.elements import as_float64, core, narrow
from worker.cpu.exact.not_finite import write_not_finite
from worker.cpu.exact.rounding import FORMATS, SLICE_BITS, Format, carry, rounded
from worker.cpu.exact.slices import DEPTH, Slices, exponents_of

BLOCK = 1024  # rows and columns of C that are computed together
LEVELS = 2  # of a first pass, for each 32 bits of the product or fewer


def multiply_exactly(problem: Problem, a: Array, b: Array, out: Array | None = None) -> Array:
    """C of shape `problem.product_shape`, in the product's stored type; written to `out` where there is one. `a` and
    `b` are floats, not yet transposed."""
    c = np.empty(problem.product_shape, STORAGE_DTYPES[problem.product_dtype]) if out is None else out
    stacked = c.reshape(problem.batch, problem.m, problem.n)
    op_a, op_b = core(a, transposed=problem.transpose_a), core(b, transposed=not problem.transpose_b)
    with np.errstate(all="ignore"):  # overflow is an answer here, by IEEE rules
        for item in range(problem.batch):
            a_lines, b_lines = (each[item if len(each) > 1 else 0] for each in (op_a, op_b))
            _multiply_item(problem, a_lines, b_lines, stacked[item])
    return c


def _multiply_item(problem: Problem, a: Array, b: Array, c: Array) -> None:
    """`a` (m, k) and `b` (n, k), by lines."""
    product = problem.product_dtype
    for columns in _blocks(problem.n):
        of_b = as_float64(b[columns], problem.dtype)
        for rows in _blocks(problem.m):
            values = _block(as_float64(a[rows], problem.dtype), of_b, FORMATS[product])
            c[rows, columns] = values if product == "float64" else narrow(values.astype(np.float32), product)


def _blocks(extent: int) -> Iterator[slice]:
    return (slice(start, min(start + BLOCK, extent)) for start in range(0, extent, BLOCK))


def _block(a: Array, b: Array, to: Format) -> Array:
    """Rounded products of lines (m, k) and (n, k), as float64."""
    finite_a, finite_b = (np.logical_and.reduce(np.isfinite(each), axis=1) for each in (a, b))
    if finite_a.all() and finite_b.all():
        return _finite_block(a, b, to)
    values = _finite_block(np.where(finite_a[:, np.newaxis], a, 0.0), np.where(finite_b[:, np.newaxis], b, 0.0), to)
    write_not_finite(values, a, b, np.flatnonzero(~finite_a), np.flatnonzero(~finite_b))
    return values


def _finite_block(a: Array, b: Array, to: Format) -> Array:
    values = np.empty((len(a), len(b)))
    rows, columns = np.arange(len(a)), np.arange(len(b))
    levels = LEVELS if to.bits <= FORMATS["float32"].bits else 2 * LEVELS
    while len(rows):
        found = _pass(a[rows], b[columns], levels)
        low = rounded(found.moved(-1), found.exponent, to)
        high = rounded(found.moved(1), found.exponent, to) if found.left_out.any() else low
        decided = low.view(np.int64) == high.view(np.int64)
        values[np.ix_(rows, columns)] = low
        rows, columns = rows[~decided.all(axis=1)], columns[~decided.all(axis=0)]
        levels = min(2 * levels + 2, found.all_levels)
    return values


@dataclass(frozen=True, slots=True)
class _Sums:
    """The sums of all elements after one pass."""

    limbs: Array
    exponent: Array
    left_out: Array  # what all that was left out is less than, in units of the last limb
    all_levels: int  # that leave nothing out

    def moved(self, ends: int) -> Array:
        """Limbs of one end of the interval: -1 or 1."""
        limbs = self.limbs.copy()
        limbs[-1] += ends * self.left_out
        carry(limbs)
        return limbs


def _pass(a: Array, b: Array, levels: int) -> _Sums:
    """Adds the products of slices i and j for which i + j <= `levels`."""
    depth = a.shape[1]
    exponents_a, exponents_b = exponents_of(a), exponents_of(b)
    limbs = np.zeros((levels + 2, len(a), len(b)), np.int64)
    counts_a, counts_b = np.zeros(len(a), np.int64), np.zeros(len(b), np.int64)
    for start in range(0, depth, DEPTH):
        of_a = Slices(a[:, start : start + DEPTH], exponents_a, levels + 1)
        of_b = Slices(b[:, start : start + DEPTH], exponents_b, levels + 1)
        _add_products(limbs, of_a, of_b, levels)
        carry(limbs)
        np.maximum(counts_a, of_a.counts, out=counts_a)
        np.maximum(counts_b, of_b.counts, out=counts_b)
    last = np.add.outer(counts_a, counts_b) - 2  # the last level that each element has
    has_terms = (counts_a > 0)[:, np.newaxis] & (counts_b > 0)
    # Σ over levels l beyond L of (l + 1)·k·2^(2β − β·(l − L)) is less than this.
    left_out = np.where(has_terms & (last > levels), depth * (levels + 3) << SLICE_BITS, 0)
    exponent = np.add.outer(exponents_a, exponents_b) - SLICE_BITS
    return _Sums(limbs, exponent, left_out, int(_levels_of(a, exponents_a) + _levels_of(b, exponents_b)))


def _add_products(limbs: Array, a: Slices, b: Slices, levels: int) -> None:
    """Multiplies the slices, without lines that have only zeros in them."""
    for i, of_a in enumerate(a.parts):
        rows = np.flatnonzero(of_a.any(axis=1))
        for j, of_b in enumerate(b.parts[: levels - i + 1]):
            columns = np.flatnonzero(of_b.any(axis=1))
            if len(rows) == len(of_a) and len(columns) == len(of_b):
                limbs[i + j + 1] += np.matmul(of_a, of_b.T).astype(np.int64)
            elif len(rows) and len(columns):
                limbs[i + j + 1][np.ix_(rows, columns)] += np.matmul(of_a[rows], of_b[columns].T).astype(np.int64)


def _levels_of(lines: Array, exponents: Array) -> int:
    """The number of slices that a line needs, for the line that needs most: to the last of the 53 bits of its smallest
    element."""
    smallest = np.where(lines == 0.0, np.inf, np.abs(lines)).min(axis=1, initial=np.inf)
    there = np.isfinite(smallest)
    if not there.any():
        return 1
    binades = exponents[there] - np.frexp(smallest[there])[1] + 53
    return int(-(-binades.max() // SLICE_BITS))
