"""Single elements of a product, summed again in float64 term by term: can rounding explain what C holds?

An element is granted u·(2·Σₜ|sₜ| + 8·√k·Σₜ|pₜ|): every step may round its partial sum sₜ by u, all in the same
direction, with as much again for another order of summation; and whatever the order, a random walk of k roundings of
the terms pₜ. To that comes one rounding to the product's type. Where errors are in proportion to norms, the terms are
those of sums of other rows and columns too, so Σₜ|pₜ| is at least the largest row of A times the largest column of B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from jobs.matrices import Array
from worker.rounding import Rounding
from worker.sums import Matrix, OperandMatrix

RANDOM_WALK = 8.0
WORST_COLUMNS = 64  # elements of a suspicious row that are summed again: those farthest off
PER_LINE = 8  # rows and columns sampled where NaN or infinity keeps the vector test out, and elements of each
TERMS = 1 << 20  # summed at a time


@dataclass(frozen=True, slots=True)
class Operands:
    """The three matrices as the product has them: a (·, m, k), b (·, k, n), c (batch, m, n)."""

    a: OperandMatrix
    b: OperandMatrix
    c: Matrix


def worst_of_rows(operands: Operands, rows: Sequence[tuple[int, int]], rounding: Rounding) -> float:
    """Largest error of the (item, row)s' elements, in what rounding explains."""
    return max(_worst_of_row(operands, item, row, rounding) for item, row in rows)


def _worst_of_row(operands: Operands, item: int, row: int, rounding: Rounding) -> float:
    """Finds the row's elements farthest off by one pass over B, then sums those again."""
    _, k, n = operands.b.shape
    a_row = operands.a.elements(item, np.array([row]), np.arange(k))
    given = operands.c.elements(item, np.array([row]), np.arange(n))
    with np.errstate(all="ignore"):
        about = operands.b.item(item).transposed().times(a_row[np.newaxis])
        distance = np.nan_to_num(np.abs(given - about.products[0]), nan=np.inf)
    distance[~np.isfinite(given)] = -1.0  # their column of B is not finite either: the sample judges them
    columns = np.argsort(distance)[-WORST_COLUMNS:]
    least = 0.0
    if rounding.normwise:
        rows = operands.a.item(item).times(np.zeros((1, k)))
        least = sqrt(rows.squares.max() * about.squares.max())
    return _worst(operands, item, np.full(len(columns), row), columns, rounding, least)


def worst_of_sample(
    operands: Operands, rows: Array, columns: Array, rounding: Rounding, rng: np.random.Generator
) -> float:
    """The same for a sample out of `rows` (bool, batch × m) and of `columns` (bool, batch or 1 × n).

    Where a row of C overflowed, elements that are not finite are in the sample.
    """
    batch, m, n = operands.c.shape
    worst = 0.0
    for item, row in _some(np.argwhere(rows), rng):
        given = operands.c.elements(item, np.array([row]), np.arange(n))
        odd = np.flatnonzero(~np.isfinite(given))
        chosen = np.concatenate([_some(odd, rng), rng.integers(0, n, size=PER_LINE)])
        worst = max(worst, _worst(operands, item, np.full(len(chosen), row), chosen, rounding))
    for item, column in _some(np.argwhere(np.broadcast_to(columns, (batch, n))), rng):
        chosen = rng.integers(0, m, size=PER_LINE)
        worst = max(worst, _worst(operands, item, chosen, np.full(PER_LINE, column), rounding))
    return worst


def _some(places: Array, rng: np.random.Generator) -> Array:
    """At most PER_LINE of them, at random."""
    chosen: Array = rng.permutation(places)[:PER_LINE]
    return chosen


def _worst(operands: Operands, item: int, rows: Array, columns: Array, rounding: Rounding, least: float = 0.0) -> float:
    """Largest ratio of the elements (rows[e], columns[e]): above 1 where rounding does not explain one. Sums of terms'
    magnitudes count as `least` at the least."""
    given = operands.c.elements(item, rows, columns)
    depth = np.arange(rounding.k)
    at_once = max(1, TERMS // max(1, rounding.k))
    worst = 0.0
    for start in range(0, len(rows), at_once):
        part = slice(start, start + at_once)
        a = operands.a.elements(item, rows[part, np.newaxis], depth)
        b = operands.b.elements(item, depth, columns[part, np.newaxis])
        worst = max(worst, float(_ratios(a, b, given[part], rounding, least).max()))
    return worst


def _ratios(a: Array, b: Array, given: Array, rounding: Rounding, least: float) -> Array:
    """Of each element, its distance from Σ a·b over what rounding explains. `a` and `b` are (elements, k)."""
    with np.errstate(all="ignore"):
        terms = a * b
        of_finite = np.isfinite(a) & np.isfinite(b)
        finite = np.where(of_finite, terms, 0.0)
        sums = np.cumsum(terms, axis=1)
        true = sums[:, -1] if rounding.k else np.zeros(len(given))
        size = np.maximum(np.abs(finite).sum(axis=1), least)
        steps = 2.0 * np.abs(sums).sum(axis=1) + RANDOM_WALK * sqrt(rounding.k) * size
        granted = rounding.accumulate * steps + rounding.underflow
        granted += rounding.operand * _lowered(a, b, of_finite, rounding).sum(axis=1)
        granted += rounding.output * (np.abs(true) + granted)
        ratios = np.where(given == true, 0.0, np.abs(given - true) / granted)
        up = _may_be_infinite(terms, finite, true + granted, rounding)
        down = _may_be_infinite(-terms, -finite, granted - true, rounding)
    infinite = np.where(of_finite, 0.0, terms)
    opposed = np.isposinf(infinite).any(axis=1) & np.isneginf(infinite).any(axis=1)
    certain = opposed | np.isnan(infinite).any(axis=1)  # NaN, whatever the order of summation
    as_ieee = (np.isposinf(given) & up & ~certain) | (np.isneginf(given) & down & ~certain)
    as_ieee |= np.isnan(given) & (certain | (up & down))
    return np.where(as_ieee, 0.0, np.where(np.isnan(ratios), np.inf, ratios))


def _lowered(a: Array, b: Array, of_finite: Array, rounding: Rounding) -> Array:
    """Of each term, what one unit roundoff of both its operands makes of it."""
    a, b, floor = np.abs(a), np.abs(b), rounding.operand_floor
    errors: Array = np.where(of_finite, np.maximum(a, floor) * b + a * np.maximum(b, floor), 0.0)
    return errors


def _may_be_infinite(terms: Array, finite: Array, highest: Array, rounding: Rounding) -> Array:
    """Whether +∞ can come out: a term is, the sum is too large for the product's type, or it passes the accumulator's
    range on the way, which depends on the order of summation."""
    on_the_way = np.maximum(finite, 0.0).sum(axis=1) >= rounding.largest_sum
    too_large = highest >= rounding.largest_output * (1.0 + rounding.output / 2)
    may: Array = np.isposinf(terms).any(axis=1) | too_large | on_the_way
    return may
