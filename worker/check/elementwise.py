"""Recomputes whole rows and columns of a product in float64 and compares each element with its class's bound.

The bound is `Rounding.element_bound`: 4·√k·u·(|A|·|B|)ᵢⱼ for the sum, with the roundings of operands and product
(Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41, 2019;
docs/accuracy.md). It assumes that the roundings of a sum are independent. If terms are alike they are not: a sum of
constants may drift in the same direction at every step. No element may exceed the worst case of any summation (Higham,
Accuracy and Stability of Numerical Algorithms, section 3.5). Elements between the bound and that worst case are
allowed 2·u·Σₜ|sₜ| for the sum, with sₜ the partial sums. The farthest are summed again term by term; of the others
those that a few of their partial sums do not explain already.

`worst_within` is the same rule for the usual case: every number of a small product is finite, and every element within
its bound. Its few passes then give the general way's number, which takes four times as many for each matrix of a batch.
Whatever is unusual goes the general way.

A GPU has the same rule (`worker/cuda/src/recheck.cuh`), where each element has its partial sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobs.formats.elements import Array
from worker.check.block import Block, FusedBlock, Norms, cut
from worker.check.elements import widen
from worker.check.host_matrix import HostMatrix, Matrix, OperandMatrix
from worker.check.rounding import Rounding

MAX_ELEMENTS = 1 << 19  # of a matrix: in float64 the passes stay in a processor's caches
NO_ROOT = np.zeros((1, 1, 1))  # operands enter as they are


@dataclass(frozen=True, slots=True)
class Added:
    """alpha, and the matrices added to alpha·A·B with their factors. A bias has one row or one column."""

    alpha: float
    terms: tuple[tuple[float, Matrix], ...]

    def elements(self, item: int, rows: Array, columns: Array) -> list[Array]:
        """float64, (rows, columns) each."""
        return [factor * self._of(matrix, item, rows, columns) for factor, matrix in self.terms]

    @staticmethod
    def _of(matrix: Matrix, item: int, rows: Array, columns: Array) -> Array:
        _, height, width = matrix.shape
        of_rows, of_columns = np.minimum(rows, height - 1), np.minimum(columns, width - 1)
        return matrix.elements(item, of_rows[:, np.newaxis], of_columns)


@dataclass(frozen=True, slots=True)
class Operands:
    """The three matrices, after transposition: a (·, m, k), b (·, k, n), c (batch, m, n)."""

    a: OperandMatrix
    b: OperandMatrix
    c: Matrix
    added: Added | None = None  # set if something was added to alpha·A·B before c was rounded


def worst_of(operands: Operands, rows: Array, columns: Array, rounding: Rounding) -> float:
    """The largest error of any element in these rows and columns of C, masks (batch, m) and (batch, n), divided by the
    error that rounding explains. Once it is above 1, no others are computed.
    """
    worst = 0.0
    for item in np.flatnonzero(rows.any(axis=1) | columns.any(axis=1)):
        of_rows, of_columns = np.flatnonzero(rows[item]), np.flatnonzero(columns[item])
        if len(of_rows):
            worst = max(worst, worst_of_rows(operands, int(item), of_rows, rounding))
        if len(of_columns) and worst <= 1.0:
            worst = max(worst, worst_of_columns(operands, int(item), of_columns, rounding))
        if worst > 1.0:
            break
    return worst


def worst_of_rows(operands: Operands, item: int, rows: Array, rounding: Rounding) -> float:
    """`worst_of` for rows of one matrix of the batch."""
    return _worst(operands, item, rows, np.arange(operands.c.shape[2]), rounding)


def worst_of_columns(operands: Operands, item: int, columns: Array, rounding: Rounding) -> float:
    """`worst_of` for columns of one matrix of the batch."""
    return _worst(operands, item, np.arange(operands.c.shape[1]), columns, rounding)


def worst_of_element(operands: Operands, item: int, row: int, column: int, rounding: Rounding) -> float:
    """`worst_of` for one element."""
    return _worst(operands, item, np.array([row]), np.array([column]), rounding)


def _worst(operands: Operands, item: int, rows: Array, columns: Array, rounding: Rounding) -> float:
    scales = Norms(operands.a, operands.b, item) if rounding.normwise else None
    worst = 0.0
    for some_columns in cut(columns, rounding.k):
        b = operands.b.elements(item, np.arange(rounding.k)[:, np.newaxis], some_columns)
        for some_rows in cut(rows, max(rounding.k, len(some_columns))):
            a = operands.a.elements(item, some_rows[:, np.newaxis], np.arange(rounding.k))
            given = operands.c.elements(item, some_rows[:, np.newaxis], some_columns)
            added = operands.added
            if added is None:
                block = Block(a, b, given, rounding, scales)
            else:
                terms = added.elements(item, some_rows, some_columns)
                block = FusedBlock(a, b, given, rounding, added.alpha, terms)
            worst = max(worst, block.worst())
            if worst > 1.0:
                return worst
    return worst


def worst_within(operands: Operands, rounding: Rounding) -> float | None:
    """The largest error of any element, divided by the error that rounding explains, at most 1. None where that is not
    so, or takes more than a look at finite numbers."""
    matrices = [each for each in (operands.a, operands.b, operands.c) if type(each) is HostMatrix]
    if len(matrices) < 3:  # others are not simply an array
        return None
    if operands.added is not None or rounding.normwise or rounding.operand or rounding.is_float64:
        return None
    if max(each.array.size for each in matrices) > MAX_ELEMENTS:
        return None
    with np.errstate(all="ignore"):
        of_a, of_b, given = (widen(each.array, each.dtype).astype(np.float64) for each in matrices)
        off = of_a @ of_b
        value = np.abs(off)
        size = np.abs(of_a, out=of_a) @ np.abs(of_b, out=of_b)
        np.abs(np.subtract(given, off, out=off), out=off)
        off /= rounding.element_bound(size, NO_ROOT, value)
        worst = float(off.max(initial=0.0))
    return worst if worst <= 1.0 else None  # not so for NaN, which whatever is not finite gives
