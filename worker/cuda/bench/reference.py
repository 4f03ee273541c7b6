"""Compares a product on the device with the same product in float64, block by block, so that little memory is
needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cupy
import numpy as np

from kernels.model.numerics import DTYPES, AccuracyName, Problem
from worker.check.rounding import Rounding, rounding_of
from worker.cuda.bench.operands import OperandSet, as_float64, view
from worker.device.bench import ProductErrors, product_errors

ERROR_ROWS = 128  # of the product, spread evenly
BLOCK_ELEMENTS = 1 << 24  # of an operand widened at a time: 128 MiB
LARGEST_BLOCK = 4096  # rows or columns of the product
EXACT = 2**53  # up to here float64 holds every integer
FLOAT64_ROUNDOFF = DTYPES["float64"].unit_roundoff


class Reference:
    """The float64 product of one item of a set, compared with a kernel's product."""

    def __init__(self, problem: Problem, at: OperandSet, item: int = 0) -> None:
        self._problem = problem
        self._a, self._b, self._c = (view(matrix, item) for matrix in (at.a, at.b, at.c))
        self._edge = max(16, min(LARGEST_BLOCK, BLOCK_ELEMENTS // max(1, problem.k)))

    def errors(self) -> ProductErrors:
        """The errors of at most ERROR_ROWS rows."""
        problem = self._problem
        count = max(1, min(ERROR_ROWS, 2 * BLOCK_ELEMENTS // max(1, problem.k)))
        rows = cupy.asarray(np.unique(np.linspace(0, problem.m - 1, count).astype(np.int64)))
        a, given = self._wide(self._a[rows]), self._c[rows]
        wrong, size = cupy.zeros(len(rows)), cupy.zeros(len(rows))
        for columns in self._slices(problem.n):
            true = a @ self._wide(self._b[:, columns])
            difference = as_float64(given[:, columns], problem.product_dtype) - true
            wrong += cupy.sum(difference * difference, axis=1)
            size += cupy.sum(true * true, axis=1)
        return product_errors(cupy.asnumpy(wrong), cupy.asnumpy(size))

    def largest_ratio(self, accuracy: AccuracyName) -> float:
        """The largest error of any element divided by the error that rounding in that class explains. Integers are
        compared modulo 2³²: 0 if all agree, otherwise infinity.
        """
        if DTYPES[self._problem.dtype].is_integer:
            return 0.0 if self._integers_agree() else float("inf")
        rounding = rounding_of(self._problem, accuracy)
        floor = self._largest_norms() if rounding.normwise else 0.0
        worst = 0.0
        for rows in self._slices(self._problem.m):
            a = self._wide(self._a[rows])
            for columns in self._slices(self._problem.n):
                given = as_float64(self._c[rows, columns], self._problem.product_dtype)
                worst = max(worst, _worst_ratio(a, self._wide(self._b[:, columns]), given, rounding, floor))
        return worst

    def _largest_norms(self) -> float:
        """The largest norm of a row of A times that of a column of B."""
        of_rows = (self._wide(self._a[rows]) for rows in self._slices(self._problem.m))
        of_columns = (self._wide(self._b[:, columns]) for columns in self._slices(self._problem.n))
        return max(_norm(each, 1) for each in of_rows) * max(_norm(each, 0) for each in of_columns)

    def _integers_agree(self) -> bool:
        depth = max(1, EXACT // max(1, _largest(self._a) * _largest(self._b)))
        for rows in self._slices(self._problem.m):
            for columns in self._slices(self._problem.n):
                true = cupy.zeros(self._c[rows, columns].shape, np.int64)
                for start in range(0, self._problem.k, depth):
                    part = slice(start, start + depth)
                    terms = self._wide(self._a[rows, part]) @ self._wide(self._b[part, columns])
                    true += terms.astype(np.int64)
                if bool(cupy.any(true.astype(np.int32) != self._c[rows, columns])):
                    return False
        return True

    def _wide(self, elements: Any) -> Any:
        return as_float64(elements, self._problem.dtype)

    def _slices(self, size: int) -> Iterator[slice]:
        return (slice(start, start + self._edge) for start in range(0, size, self._edge))


def _largest(elements: Any) -> int:
    """Magnitude of integers."""
    return max(abs(int(elements.min())), abs(int(elements.max())))


def _norm(lines: Any, axis: int) -> float:
    """The norm of the longest line along the axis."""
    return float(cupy.linalg.norm(lines, axis=axis).max())


def _worst_ratio(a: Any, b: Any, given: Any, rounding: Rounding, floor: float) -> float:
    """Any order of summation is within k·u·|A||B|, operands lowered first within 2u more, and the result is rounded
    once (Higham, "Accuracy and Stability of Numerical Algorithms", section 3.5). The reference rounds too. Where errors
    are in proportion to norms, |A||B| counts as `floor` at the least."""
    true = a @ b
    size = cupy.maximum(cupy.abs(a) @ cupy.abs(b), floor)
    steps = rounding.k * (rounding.accumulate + FLOAT64_ROUNDOFF) + 2 * rounding.operand
    granted = steps * size + rounding.underflow
    granted += rounding.output * (cupy.abs(true) + granted)
    ratio = cupy.where(given == true, 0.0, cupy.abs(given - true) / granted)
    return float(cupy.where(cupy.isnan(ratio), np.inf, ratio).max())
