"""What a product should be, element by element, and how far its accuracy class lets it be off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobs.formats.elements import Array
from kernels.model.accuracy import DRIFT_FACTOR, ElementBound, element_bound
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName, Problem
from worker.check.careful_sketch import FLOAT64_EXPONENT
from worker.check.elements import as_float64, core
from worker.check.rounding import CONFIDENCE, as_significant, rounding_of
from worker.check.sketch import MEAN_SQUARE, SMALLEST_NORMAL
from worker.check.verify import group_width, is_direct
from worker.check.views.as_real import in_blocks, real_view, signs_of

TERMS_AT_ONCE = 1 << 21
SURE = 16.0  # so many times Q is more than any estimate of it from eight projections


@dataclass(frozen=True, slots=True)
class Truth:
    """Arrays of shape (batch, m, n). Integers wrap modulo 2³² and have no error."""

    value: Array  # int64, float64, or long double for float64 operands
    bound: Array
    may_overflow: Array  # bool: the result, or a partial sum on its way, can leave its type's range
    lowered: tuple[tuple[Array, Array], ...]  # values and bounds of operands that were rounded to the class first
    told_from: Array  # errors from which on the check promises to tell one wrong element from its row's rounding
    dtype: DTypeName  # of the product

    def excess(self, c: Array, *, told: bool = False) -> float:
        """Largest error over its bound; above 1 where an element is wrong. `c` in stored form, same shape. `told`: of
        elements that the check promises to tell."""
        c = real_view(c) if np.iscomplexobj(c) else c
        if DTYPES[self.dtype].is_integer:
            return float("inf") if (c != self.value).any() else 0.0
        given = as_float64(c, self.dtype)
        with np.errstate(all="ignore"):
            errors = np.abs(given - self.value)
            ratios = errors / self.bound
            for value, bound in self.lowered:
                ratios = np.minimum(ratios, np.abs(given - value) / bound)
            if told:
                ratios = np.where(errors > self.told_from, ratios, 0.0)
        finite = np.isfinite(given) & np.isfinite(self.value)
        alike = (given == self.value) | (np.isnan(given) & np.isnan(self.value))
        explained = alike | (self.may_overflow & ~np.isfinite(given))
        return float(np.where(finite, ratios, np.where(explained, 0.0, np.inf)).max(initial=0.0))


def truth_of(problem: Problem, accuracy: AccuracyName, a: Array, b: Array, *, quick: bool = False) -> Truth:
    """`a` and `b` as stored, before transposition. `quick`: by BLAS alone, for large products of data on which partial
    sums do not drift; float64 operands are then multiplied in float64. Of complex ones it is that of their parts."""
    if DTYPES[problem.dtype].is_complex:
        a = real_view(core(a, transposed=problem.transpose_a))
        b = in_blocks(core(b, transposed=problem.transpose_b), signs_of(problem))
        problem = problem.as_real
    a, b = core(a, transposed=problem.transpose_a), core(b, transposed=problem.transpose_b)
    if DTYPES[problem.dtype].is_integer:
        exact = np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(np.int32).astype(np.int64)  # modulo 2³²
        nothing = np.zeros(exact.shape)
        return Truth(exact, nothing, nothing > 0, (), nothing, problem.product_dtype)
    wide = np.longdouble if problem.dtype == "float64" and not quick else np.float64
    a, b = (as_float64(each, problem.dtype).astype(wide, copy=False) for each in (a, b))
    with np.errstate(all="ignore"):
        return _of_floats(problem, accuracy, a, b, quick)


def truth_of_scaled(problem: Problem, accuracy: AccuracyName, a: Array, b: Array) -> Truth:
    """Of operands with block scales, quickly. `a` and `b` are the float64 numbers that they stand for, as stored."""
    a, b = core(a, transposed=problem.transpose_a), core(b, transposed=problem.transpose_b)
    return _of_floats(problem, accuracy, a, b, quick=True)


def _of_floats(problem: Problem, accuracy: AccuracyName, a: Array, b: Array, quick: bool) -> Truth:
    limits = element_bound(accuracy, problem.dtype, problem.k, is_scaled=problem.scale_columns > 0)
    value, sizes, bound = _bounded(a, b, limits, quick, limits.operand)
    rounding = rounding_of(problem, accuracy)
    lowered = []
    if limits.operand and not quick:
        for to_whole in (np.rint, np.trunc):
            as_lowered = [as_significant(each, rounding, to_whole) for each in (a, b)]
            other, _, granted = _bounded(as_lowered[0], as_lowered[1], limits, quick, 0.0)
            lowered.append((other, granted))
    product = DTYPES[problem.product_dtype]
    accumulator = DTYPES["float64" if problem.dtype == "float64" else "float32"]
    too_large = np.abs(value) + bound >= product.largest
    may_overflow = too_large | (sizes >= accumulator.largest)
    told_from = _told_from(problem, accuracy, a, b, value)
    return Truth(value, bound, may_overflow, tuple(lowered), told_from, problem.product_dtype)


def _bounded(a: Array, b: Array, limits: ElementBound, quick: bool, operand: float) -> tuple[Array, Array, Array]:
    """The product, the sizes that its sums' bounds are in proportion to, and its bound."""
    value = np.matmul(a, b)
    sizes = _sizes(a, b, np.matmul(np.abs(a), np.abs(b)), limits)
    granted = limits.sum * sizes
    if not quick:
        granted = np.maximum(granted, DRIFT_FACTOR * limits.sum_roundoff * _walks(a, b))
    if operand:
        granted = granted + _of_operands(a, b, value, limits)
    return value, sizes, granted + limits.output * (np.abs(value) + granted) + limits.underflow


def _told_from(problem: Problem, accuracy: AccuracyName, a: Array, b: Array, value: Array) -> Array:
    """By the argument of `worker/check/verify.py`: twice the tolerance of the row in the column's group, over the least
    that an element of a random vector can be."""
    told = np.zeros(value.shape)
    if is_direct(problem):
        return told
    rounding, width = rounding_of(problem, accuracy), group_width(problem.n, problem.k)
    a, b, value = (np.where(np.isfinite(each), each, 0.0) for each in (a, b, value))
    norms = np.sqrt(np.square(b).sum(axis=1))
    exponents = np.where(norms > 0, np.frexp(norms)[1], -400 if rounding.is_float64 else -100)
    least = max(SMALLEST_NORMAL.get(problem.product_dtype, 0.0), rounding.floor * problem.k**0.5)
    is_weighed = norms > (0.0 if rounding.normwise else least)
    if rounding.normwise:
        exponents[:] = exponents.max()
    one = norms.dtype.type(1.0)
    weights = np.where(is_weighed, MEAN_SQUARE * np.ldexp(one, -2 * exponents), 0.0)
    units = np.where(is_weighed, MEAN_SQUARE * np.ldexp(one, -2 * np.maximum(exponents, -FLOAT64_EXPONENT)), 0.0)
    for start in range(0, problem.n, width):
        group = slice(start, start + width)
        floor = rounding.floor**2
        z = np.matmul(np.square(b[:, :, group]) + floor, weights[:, group, np.newaxis])
        q, r = (
            np.matmul(np.square(a) + floor, z)[..., 0],
            np.matmul(np.square(value[:, :, group]), weights[:, group, np.newaxis]),
        )
        if rounding.normwise:
            q = np.broadcast_to(q.max(axis=1, keepdims=True), q.shape)
            r = np.broadcast_to(r.max(axis=1, keepdims=True), r.shape)
        underflow = rounding.underflow * np.sqrt(units[:, group].sum(axis=1))[:, np.newaxis]
        # Computed again, as columns without a weight are. Q may be estimated, and columns be weighed by their peaks.
        is_drowned = np.square(CONFIDENCE * underflow) > SURE * problem.k * q
        tolerance = np.where(is_drowned, 0.0, np.sqrt(rounding.squared_tolerance(q, r[..., 0], underflow)))
        told[:, :, group] = 2 * tolerance[..., np.newaxis] * np.ldexp(one, exponents[:, np.newaxis, group])
    is_again = (norms > 0.0) & ~is_weighed
    return np.where(is_again[:, np.newaxis], 0.0, told)


def _sizes(a: Array, b: Array, magnitudes: Array, limits: ElementBound) -> Array:
    if not limits.normwise:
        return magnitudes
    finite = (np.where(np.isfinite(each), each, 0.0) for each in (a, b))
    longest = [np.sqrt(np.square(each).sum(axis=axis)).max(axis=-1) for each, axis in zip(finite, (2, 1), strict=True)]
    sizes: Array = np.maximum(magnitudes, (longest[0] * longest[1])[:, np.newaxis, np.newaxis])
    return sizes


def _of_operands(a: Array, b: Array, value: Array, limits: ElementBound) -> Array:
    a, b = (np.square(np.maximum(np.abs(each), limits.operand_floor)) for each in (a, b))
    granted: Array = limits.operand_root * np.sqrt(np.matmul(a, b)) + limits.operand_value * np.abs(value)
    return granted


def _walks(a: Array, b: Array) -> Array:
    """Of each element, the sum of its partial sums' magnitudes."""
    batch, m, k = max(len(a), len(b)), a.shape[1], a.shape[2]
    n = b.shape[2]
    walks = np.zeros((batch, m, n), a.dtype)
    rows = max(1, TERMS_AT_ONCE // max(1, n * k))
    for item in range(batch):
        columns = b[item % len(b)].T
        for start in range(0, m, rows):
            terms = a[item % len(a), start : start + rows, np.newaxis, :] * columns
            walks[item, start : start + rows] = np.abs(np.cumsum(terms, axis=-1)).sum(axis=-1)
    return walks
