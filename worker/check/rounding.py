"""How far rounding alone may move a product from the exact one: the basis of the check's tolerances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log2, sqrt

import numpy as np

from jobs.formats.elements import Array
from kernels.model.accuracy import DRIFT_FACTOR, SMALLEST_NORMAL, SMALLEST_POSITIVE, element_bound, sum_depth
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName, Problem

CONFIDENCE = 5.0  # standard deviations; a row that exceeds it by chance is only checked again, so it may be tight
# Roundings of alpha, beta, both products and both sums: at most four concern one term, plus one in reserve.
EPILOGUE_ROUNDINGS = 5.0
LOWEST = -1100  # exponent below which terms together are less than float64's smallest number
CHECK_STEPS = 256.0  # steps of the check's own sums in the element type
CHECKPOINTS = 16  # of a sum's partial sums
OWN_ROUNDING = 2.0**-20  # far above that of float64 sums of partial sums


@dataclass(frozen=True, slots=True)
class Rounding:
    """Unit roundoffs of the three places where a product of depth `k` rounds, and their underflow."""

    k: int
    depth: int  # length of the sums that round by `accumulate` at each step: k, or that of a block of scales
    operand: float  # operands lowered to a shorter type first (TF32); 0 where they enter as they are
    operand_floor: float  # magnitude below which that is no longer relative to an operand, but to this
    accumulate: float  # each step of the sum
    check: float  # each step of the check's own sums
    output: float  # once, to the product's type
    underflow: float  # absolute error of an element whose terms lie below the normal range
    largest_sum: float  # beyond it the accumulator overflows
    largest_output: float
    element_factors: tuple[float, float, float, float]  # of the class's bound, as `ElementBound` has them
    epilogue: float = 0.0  # roundings of the terms added before the final rounding, relative to all terms
    normwise: bool = False  # errors are relative to the largest rows of A and columns of B
    is_float64: bool = False

    @property
    def threshold(self) -> float:
        """The tolerance of a row divided by √(k·Q), as for terms of random signs; it depends only on element types and
        k.
        """
        return sqrt(self._of_terms / max(self.k, 1))

    @property
    def floor(self) -> float:
        """The smallest rounding error of an operand divided by the roundoff; 0 if operands are used unrounded."""
        return self.operand_floor if self.operand else 0.0

    @property
    def keeps_exponents(self) -> bool:
        """Whether the shorter type of operands, if there is one, has the exponents of float32."""
        return self.operand_floor <= SMALLEST_NORMAL

    @property
    def tolerance_factors(self) -> tuple[float, float, float]:
        """The factors of Q, of R, and of underflow before it is squared, in T²."""
        return self._of_terms, self._of_sums, CONFIDENCE * self.underflow

    @property
    def fused_factors(self) -> tuple[float, float, float, float]:
        """The factors in T² of a product whose epilogue comes before its one rounding: of alpha²·Q (as in
        `tolerance_factors`), of the squares of alpha·A·B, of the squares of what is added, and of the squares of D."""
        of_steps, of_output = CONFIDENCE**2 / 3 * self.epilogue**2, CONFIDENCE**2 / 3 * self.output**2
        return self._of_terms, self._of_sums - of_output + of_steps, of_steps, of_output

    def fused(self, alpha: float, output: DTypeName) -> Rounding:
        """The Rounding of alpha·A·B + beta·C + bias, computed from float32 sums and rounded once, to `output`."""
        own = self._delivered(output)
        of_size, of_root, of_value, rest = own.element_factors
        epilogue, scale = EPILOGUE_ROUNDINGS * DTYPES["float32"].unit_roundoff, max(1.0, abs(alpha))
        factors = of_size + epilogue * (1.0 + own.output), of_root, of_value, rest * scale
        return replace(own, epilogue=epilogue, underflow=own.underflow * scale, element_factors=factors)

    def _delivered(self, output: DTypeName) -> Rounding:
        """The Rounding with that output type instead of the product's own."""
        to = DTYPES[output]
        if to.unit_roundoff == self.output:
            return self
        of_size, of_root, of_value, rest = self.element_factors
        outer, more = (1.0 + to.unit_roundoff) / (1.0 + self.output), SMALLEST_POSITIVE[output]
        factors = of_size * outer, of_root * outer, (of_value - self.output) * outer + to.unit_roundoff, rest + more
        return replace(
            self,
            output=to.unit_roundoff,
            largest_output=to.largest,
            underflow=self.underflow + more,
            element_factors=factors,
        )

    @property
    def _of_terms(self) -> float:
        steps = self.accumulate**2 * self.depth + CHECK_STEPS * self.check**2
        return CONFIDENCE**2 / 3 * (steps + 2 * self.operand**2)

    @property
    def _of_sums(self) -> float:
        steps = self.accumulate**2 * self.depth + CHECK_STEPS * self.check**2
        return CONFIDENCE**2 / 3 * (steps / 3 + 4 * self.operand**2 + self.output**2)

    def squared_tolerance(self, q: Array, r: Array, underflow: Array) -> Array:
        """T² of rows and groups. `worker/check/verify.py` derives it; `underflow` is that of a row's projection."""
        total: Array = q * self._of_terms
        total += r * self._of_sums
        total += np.square(CONFIDENCE * underflow)
        return total

    def element_bound(self, size: Array, root: Array, value: Array) -> Array:
        """The error that the class allows each element. `size` is (|A|·|B|)ᵢⱼ; `root` that of Σ of squared terms, with
        operands' magnitudes at least `operand_floor`; `value` |AB|ᵢⱼ."""
        of_size, of_root, of_value, rest = self.element_factors
        bound: Array = of_size * size + of_root * root + of_value * value + rest
        return bound

    def ratios_by_terms(self, a: Array, b: Array, given: Array) -> Array:
        """The errors of finite float64 elements, divided by what the class allows them. `a`, `b`: row and column of
        each, (elements, k). Exponents are those of its largest term, so none is lost, however far apart they are.
        """
        (of_a, exponents_a), (of_b, exponents_b) = (np.frexp(each.astype(np.longdouble)) for each in (a, b))
        terms = of_a * of_b
        exponents = np.where(terms == 0.0, LOWEST, exponents_a + exponents_b)
        top = exponents.max(axis=1, keepdims=True, initial=LOWEST)
        terms = np.ldexp(terms, exponents - top)
        true, size = terms.sum(axis=1), np.abs(terms).sum(axis=1)
        of_size, _, of_value, rest = self.element_factors
        drift = DRIFT_FACTOR * self.accumulate * np.abs(np.cumsum(terms, axis=1)).sum(axis=1)
        off, rest_of = (np.ldexp(np.longdouble(each), -top[:, 0]) for each in (given, rest))
        granted = np.maximum(of_size * size, drift) + of_value * np.abs(true) + rest_of
        ratios: Array = (np.abs(off - true) / granted).astype(np.float64)
        return ratios


@lru_cache(maxsize=1024)
def rounding_of(problem: Problem, accuracy: AccuracyName) -> Rounding:
    """The Rounding of float operands multiplied in the class `accuracy`; for complex operands, that of their parts."""
    problem = problem.as_real
    is_scaled = problem.scale_columns > 0
    bound = element_bound(accuracy, problem.dtype, problem.k, is_scaled=is_scaled)
    accumulator = DTYPES["float64" if problem.dtype == "float64" else "float32"]
    return Rounding(
        k=problem.k,
        depth=sum_depth(accuracy, problem.k, is_scaled=is_scaled),
        operand=bound.operand,
        operand_floor=bound.operand_floor,
        accumulate=bound.sum_roundoff,
        check=accumulator.unit_roundoff,
        output=bound.output,
        underflow=bound.underflow,
        largest_sum=accumulator.largest,
        largest_output=DTYPES[problem.product_dtype].largest,
        element_factors=bound.factors,
        normwise=bound.normwise,
        is_float64=problem.dtype == "float64",
    )


def partial_sums(terms: Array, depth: int) -> float:
    """Σₜ|sₜ|, of sums that begin anew after every `depth` terms."""
    starts = range(0, len(terms), max(depth, 1))
    return float(sum(np.abs(np.cumsum(terms[start : start + depth])).sum() for start in starts))


def min_partial_sums(a: Array, b: Array, depth: int) -> Array:
    """No more than `partial_sums` of each element of a·b, (rows, columns), from a few of its partial sums. Those
    between two of them are no nearer to zero than the larger one, less the magnitudes of the terms between.
    """
    least = np.zeros((len(a), b.shape[1]))
    for start in range(0, a.shape[1], max(depth, 1)):
        before, end = np.zeros_like(least), min(start + depth, a.shape[1])
        step = -(-(end - start) // CHECKPOINTS)
        for first in range(start, end, step):
            some_a, some_b = a[:, first : min(first + step, end)], b[first : min(first + step, end)]
            after = before + some_a @ some_b
            nearest = np.maximum(np.abs(before), np.abs(after)) - np.abs(some_a) @ np.abs(some_b)
            least += len(some_b) * np.maximum(nearest, 0.0)
            before = after
    return least * (1.0 - OWN_ROUNDING)


def as_significant(values: Array, rounding: Rounding, to_whole: Callable[[Array], Array]) -> Array:
    """The values rounded to the class's significant bits, and to multiples of its smallest number."""
    bits = -int(log2(rounding.operand))
    lowest = int(log2(rounding.operand_floor)) + 1 if rounding.operand_floor else -1100
    place = np.maximum(np.frexp(values)[1], lowest) - bits
    lowered: Array = np.ldexp(to_whole(np.ldexp(values, -place)), place)
    return lowered
