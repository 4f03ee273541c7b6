"""Recomputes elements of a product in float64, a block of rows and columns at a time, with the error allowed for each.
The rule is in `worker/check/elementwise.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import sqrt

import numpy as np

from jobs.formats.elements import Array
from kernels.model.accuracy import DRIFT_FACTOR
from worker.check.host_matrix import Matrix, OperandMatrix
from worker.check.rounding import Rounding, as_significant, min_partial_sums, partial_sums

MAX_TERMWISE = 256  # elements of a block that are summed term by term in any case: the farthest
NEAR = 0.5  # share of the bound above which float64 sums of float64 elements cannot decide on which side an element is
BLOCK = 1 << 21  # elements of a block of an operand or of the product, in float64
SMALLEST = 2.0**-1074
LOST = SMALLEST * 2**14  # a bound of this for each term is far above what terms below the normal range lose


def cut(indices: Array, length: int) -> Iterator[Array]:
    step = max(1, BLOCK // max(1, length))
    for start in range(0, len(indices), step):
        yield indices[start : start + step]


class Norms:
    """The largest norm of a row of A times the largest norm of a column of B, for one matrix of the batch."""

    def __init__(self, a: OperandMatrix, b: OperandMatrix, item: int) -> None:
        self.product = self._largest(a, item) * self._largest(b, item, of_columns=True)

    @staticmethod
    def _largest(matrix: Matrix, item: int, *, of_columns: bool = False) -> float:
        _, rows, columns = matrix.shape
        squares = np.zeros(columns if of_columns else rows)
        for some in cut(np.arange(rows), columns):
            values = np.nan_to_num(matrix.elements(item, some[:, np.newaxis], np.arange(columns)), posinf=0, neginf=0)
            if of_columns:
                squares += np.square(values).sum(axis=0)
            else:
                squares[some] = np.square(values).sum(axis=1)
        return sqrt(float(squares.max(initial=0.0)))


class Block:
    """Some rows a (rows, k) and columns b (k, columns), and the corresponding part of C (rows, columns); all in
    float64.
    """

    def __init__(self, a: Array, b: Array, given: Array, rounding: Rounding, norms: Norms | None) -> None:
        self._rounding, self._norms, self._alpha = rounding, norms, 1.0
        self._rows, self._columns = np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64)
        self._own_a, self._own_b = self._a, self._b = a, b
        if rounding.is_float64:  # sums may overflow here unless exponents are factored out
            self._rows, self._columns = _exponents(a, axis=1), _exponents(b, axis=0)
            self._a, self._b = _scaled(a, -self._rows), _scaled(b, -self._columns)
        self._given = given

    def worst(self) -> float:
        with np.errstate(all="ignore"):
            shift = -(self._rows + self._columns)
            given = np.ldexp(self._given, shift)
            true, size = self._a @ self._b, np.abs(self._a) @ np.abs(self._b)
            finite_size = self._size_of_finite(size)
            if self._norms is not None:
                finite_size = np.maximum(finite_size, self._norms.product)
            underflow = np.ldexp(self._rounding.underflow, shift) - self._rounding.underflow
            bound = self._rounding.element_bound(finite_size, self._root, np.abs(true)) + underflow
            widest = bound + self._rounding.accumulate * DRIFT_FACTOR * self._rounding.depth * finite_size
            off, may_overflow = np.abs(given - true), self._may_overflow(true, finite_size, bound, shift)
            may_overflow |= ~np.isfinite(given) & self._rounds_to_infinity()
            is_equal = (given == true) | (np.isnan(given) & np.isnan(true)) | may_overflow
            ratios, at_worst = (np.where(is_equal, 0.0, off / each) for each in (bound, widest))
            ratios[np.isnan(ratios)] = np.inf
            if self._rounding.is_float64 and len(lost := self._lost(true, bound)):
                places = tuple(lost.T)
                ratios[places] = at_worst[places] = self._by_terms(lost)
            if not (at_worst <= 1.0).all():
                return float(ratios.max())
            return self._explained(ratios, given, bound, finite_size)

    def _lost(self, true: Array, bound: Array) -> Array:
        """Places (elements, 2) of finite elements so small beside their row and column that `true` has lost digits."""
        lost: Array = (bound <= self._rounding.k * LOST) & np.isfinite(true) & np.isfinite(self._given)
        if lost.any():  # usually because all terms are zero
            terms = (self._own_a != 0.0).astype(np.float32) @ (self._own_b != 0.0).astype(np.float32)
            lost &= (terms > 0.0) | (self._given != 0.0)
        return np.argwhere(lost)

    def _by_terms(self, places: Array) -> Array:
        """The ratios of these elements, each summed by itself."""
        found = np.empty(len(places))
        for some in cut(np.arange(len(places)), self._rounding.k):
            rows, columns = places[some].T
            of_a, of_b, given = self._own_a[rows], self._own_b[:, columns].T, self._given[rows, columns]
            found[some] = self._rounding.ratios_by_terms(of_a, of_b, given)
        return found

    @cached_property
    def _root(self) -> Array:
        """Root of Σ of squared terms, operands' magnitudes being at least the floor; zeros where operands enter as they
        are."""
        if not self._rounding.operand:
            return np.zeros((1, 1))
        lowest = self._rounding.operand_floor
        a, b = (np.maximum(np.abs(np.where(np.isfinite(x), x, 0.0)), lowest) for x in (self._a, self._b))
        root: Array = np.sqrt(np.square(a) @ np.square(b))
        return root

    def _size_of_finite(self, size: Array) -> Array:
        """Σ of the magnitudes of finite terms."""
        if np.isfinite(size).all():
            return size
        a, b = (np.abs(np.where(np.isfinite(x), x, 0.0)) for x in (self._a, self._b))
        finite: Array = a @ b
        return finite

    def _may_overflow(self, true: Array, size: Array, bound: Array, shift: Array) -> Array:
        """Mask of elements where IEEE arithmetic may give C's infinity or NaN: the sum overflows the product's type, or
        overflows the accumulator on the way, which depends on the order of summation.
        """
        largest = np.ldexp(self._rounding.largest_output, shift) * (1.0 + self._rounding.output / 2)
        largest_sum = np.ldexp(self._rounding.largest_sum, shift)
        is_finite = np.isfinite(true)
        up = is_finite & ((true + bound >= largest) | ((size + true) / 2 + bound >= largest_sum))
        down = is_finite & ((bound - true >= largest) | ((size - true) / 2 + bound >= largest_sum))
        # An infinite term decides the sum, unless finite ones overflow the other way before it.
        up |= np.isposinf(true)
        down |= np.isneginf(true)
        is_large = size / 2 >= largest_sum
        met_up, met_down = is_large & np.isneginf(true), is_large & np.isposinf(true)
        undefined = (up & (down | met_down)) | (down & met_up)
        may: Array = (np.isposinf(self._given) & up) | (np.isneginf(self._given) & down)
        may |= np.isnan(self._given) & undefined
        return may

    def _rounds_to_infinity(self) -> Array:
        """Mask of elements with an operand beyond the largest number of the shorter type to which it is rounded."""
        if not self._rounding.operand or not self._rounding.keeps_exponents:
            return np.zeros((1, 1), bool)
        lowest = np.ldexp(1.0 - self._rounding.operand / 2, 128)
        rows, columns = (np.abs(self._a) >= lowest).any(axis=1), (np.abs(self._b) >= lowest).any(axis=0)
        beyond: Array = rows[:, np.newaxis] | columns
        return beyond

    def _explained(self, ratios: Array, given: Array, bound: Array, size: Array) -> float:
        """The worst ratio, if all elements are within the worst case. Elements beyond the bound are summed again term
        by term, with an allowance for drift: the farthest, and the others unless they certainly drift as far.
        """
        limit = NEAR if self._rounding.is_float64 else 1.0
        beyond = np.argwhere(ratios > limit)
        if not len(beyond):
            return float(ratios.max(initial=0.0))
        beyond = beyond[np.argsort(ratios[tuple(beyond.T)])]
        others, farthest = beyond[:-MAX_TERMWISE], beyond[-MAX_TERMWISE:]
        worst = self._worst_by_terms(farthest, given)
        if not len(others) or worst > 1.0:
            return worst
        certain = ratios <= limit * (1.0 + self._min_drift(size) / bound)
        return max(worst, self._worst_by_terms(others[~certain[tuple(others.T)]], given))

    def _min_drift(self, size: Array) -> Array:
        """What each element is granted at least beside its bound."""
        of_size, rounding = self._rounding.element_factors[0], self._rounding
        sums = min_partial_sums(self._a, self._b, rounding.depth)
        drift: Array = abs(self._alpha) * DRIFT_FACTOR * rounding.accumulate * sums - of_size * size
        return np.maximum(drift, 0.0)

    def _worst_by_terms(self, places: Array, given: Array) -> float:
        """The largest ratio of these elements; the first one above 1 ends the search."""
        if self._rounding.is_float64:
            return float(self._by_terms(places).max(initial=0.0))
        worst = 0.0
        for row, column in places[::-1]:
            worst = max(worst, self._termwise(int(row), int(column), given))
            if worst > 1.0:
                break
        return worst

    def _termwise(self, row: int, column: int, given: Array) -> float:
        """The ratio of one element; if operands are lowered to a shorter type, both with rounding and with
        truncation.
        """
        a, b, rounding = self._a[row], self._b[:, column], self._rounding
        value = float(given[row, column])
        _, of_root, of_value, _ = rounding.element_factors
        of_operands = of_root * self._root[row, column] if rounding.operand else 0.0
        ratio = self._drift(a, b, value, of_operands, of_value)
        if rounding.operand and ratio > 1.0:
            for to_whole in (np.rint, np.trunc):
                lowered_a, lowered_b = as_significant(a, rounding, to_whole), as_significant(b, rounding, to_whole)
                ratio = min(ratio, self._drift(lowered_a, lowered_b, value, 0.0, rounding.output))
        return ratio

    def _drift(self, a: Array, b: Array, given: float, of_operands: float, of_value: float) -> float:
        """The element's distance from the sum of these terms, divided by the error allowed for the steps of the sum,
        the operands and the value.
        """
        terms = a * b
        size = np.abs(terms).sum()
        if self._norms is not None:
            size = max(size, self._norms.product)
        rounding, true = self._rounding, float(terms.sum())
        of_size, _, _, rest = rounding.element_factors
        drift = DRIFT_FACTOR * rounding.accumulate * partial_sums(terms, rounding.depth)
        granted = max(of_size * size, drift) + of_operands + of_value * abs(true) + rest
        return float(abs(given - true) / granted)


class FusedBlock(Block):
    """A block of D = alpha·A·B + beta·C + bias, rounded once (docs/decisions/0064): the terms of A·B and the added
    terms form one longer sum, and D's own rounding is relative to D. Never float64, nor a normwise class.
    """

    def __init__(self, a: Array, b: Array, given: Array, rounding: Rounding, alpha: float, terms: list[Array]) -> None:
        """`terms`: the matrices added to alpha·A·B, (rows, columns) each."""
        super().__init__(a, b, given, rounding, None)
        self._alpha, self._terms = alpha, terms

    def worst(self) -> float:
        with np.errstate(all="ignore"):
            rounding, alpha, given = self._rounding, abs(self._alpha), self._given
            product = self._a @ self._b
            sums = self._size_of_finite(np.abs(self._a) @ np.abs(self._b))
            true, size = self._alpha * product, alpha * sums
            for term in self._terms:
                true, size = true + term, size + np.abs(np.where(np.isfinite(term), term, 0.0))
            of_size, of_root, of_value, rest = rounding.element_factors
            bound = of_size * size + rounding.output * np.abs(true) + rest
            bound = bound + alpha * (of_root * self._root + (of_value - rounding.output) * np.abs(product))
            widest = bound + rounding.accumulate * DRIFT_FACTOR * rounding.depth * alpha * sums
            may = self._may_leave_the_range(true, bound, np.maximum(sums, size))
            is_right = (given == true) | (np.isnan(given) & np.isnan(true)) | may
            ratios, at_worst = (np.where(is_right, 0.0, np.abs(given - true) / each) for each in (bound, widest))
            ratios[np.isnan(ratios)] = np.inf
            if not (at_worst <= 1.0).all():
                return float(ratios.max())
            return self._explained(ratios, given, bound, size)

    def _may_leave_the_range(self, true: Array, bound: Array, size: Array) -> Array:
        """Mask of elements where D is infinite because of its type's range, or not finite because of the range of
        float32, in which everything before the last rounding is computed.
        """
        largest = self._rounding.largest_output * (1.0 + self._rounding.output / 2)
        up, down = np.isposinf(self._given), np.isneginf(self._given)
        may: Array = (up & (true + bound >= largest)) | (down & (bound - true >= largest))
        may |= ~np.isfinite(self._given) & ((size + bound >= self._rounding.largest_sum) | self._rounds_to_infinity())
        return may

    def _termwise(self, row: int, column: int, given: Array) -> float:
        a, b, rounding = self._a[row], self._b[:, column], self._rounding
        added, value = [float(term[row, column]) for term in self._terms], float(given[row, column])
        _, of_root, of_value, _ = rounding.element_factors
        of_operands = of_root * float(self._root[row, column]) if rounding.operand else 0.0
        ratio = self._distance(a, b, value, added, of_operands, of_value - rounding.output)
        if rounding.operand and ratio > 1.0:
            for to_whole in (np.rint, np.trunc):
                lowered_a, lowered_b = as_significant(a, rounding, to_whole), as_significant(b, rounding, to_whole)
                ratio = min(ratio, self._distance(lowered_a, lowered_b, value, added, 0.0, 0.0))
        return ratio

    def _distance(
        self, a: Array, b: Array, given: float, added: list[float], of_operands: float, of_product: float
    ) -> float:
        """The error of one element, over the error that the steps of its sum, its operands, the epilogue and the
        rounding of D may cause."""
        terms, rounding, alpha = a * b, self._rounding, abs(self._alpha)
        product, size = float(terms.sum()), np.abs(terms).sum()
        true = self._alpha * product + sum(added)
        of_size, _, _, rest = rounding.element_factors
        drift = alpha * DRIFT_FACTOR * rounding.accumulate * partial_sums(terms, rounding.depth)
        all_terms = alpha * size + sum(map(abs, added))
        granted = max(of_size * all_terms, drift + rounding.epilogue * (1.0 + rounding.output) * all_terms)
        granted += alpha * (of_operands + of_product * abs(product)) + rounding.output * abs(true) + rest
        return float(abs(given - true) / granted)


def _scaled(values: Array, exponents: Array) -> Array:
    """values·2^exponents; nothing but 0 becomes 0, which would make a NaN of infinity."""
    scaled: Array = np.ldexp(values, exponents)
    vanished = (scaled == 0.0) & (values != 0.0)
    if vanished.any():
        scaled[vanished] = np.copysign(SMALLEST, values[vanished])
    return scaled


def _exponents(values: Array, axis: int) -> Array:
    """Exponents of the largest finite magnitude along an axis, which is kept as a dimension."""
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    exponents: Array = np.frexp(finite.max(axis=axis, keepdims=True, initial=0.0))[1].astype(np.int64)
    return exponents
