"""Products of operands made to break bounds, as they truly are, and what a proven bound lets a kernel's be off by.

Norms and limits are computed in the longest floats there are (`longdouble`), whose exponents hold the square of any
float64. A bound speaks of elements whose row of A and column of B are finite, and whose value the product's type has;
where an operand has elements that are not finite, norms are those of the others, as magnitudes are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from jobs.formats.elements import Array
from kernels.model.accuracy import SMALLEST_POSITIVE
from kernels.model.bounds import Bound, Magnitudes
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.support.bounds.operand_data import operand_pairs
from worker.check.elements import as_float64, narrow
from worker.cpu.exact.product import multiply_exactly
from worker.product.magnitudes import magnitudes_of

U = 2.0**-53  # of float64
SLACK = 1 + 2.0**-20  # for sizes and norms, which are rounded


@dataclass(frozen=True, slots=True)
class TrueProduct:
    """`a` (m, k) and `b` (k, n) as they are stored, with their magnitudes; of the product, all in float64, `values`,
    `sizes` (|A|·|B|)ᵢⱼ, and what values are off by themselves; and R·S."""

    name: str
    problem: Problem
    a: Array
    b: Array
    of_a: Magnitudes
    of_b: Magnitudes
    values: Array
    sizes: Array
    own_error: Array
    norms: np.longdouble
    is_finite: Array  # by elements: row and column are

    def held(self, bound: Bound) -> Iterator[tuple[Array, Array]]:
        """Of each kind of bound that there is, the elements that it speaks of, and what they may be off by."""
        product = DTYPES[self.problem.product_dtype]
        rest = self.own_error + np.longdouble(SMALLEST_POSITIVE[product.name])
        for of_bound, scale in ((bound.normwise, self.norms), (bound.componentwise, self.sizes)):
            if of_bound is not None:
                limits = rest + np.longdouble(SLACK * of_bound) * scale
                yield self.is_finite & (np.abs(self.values) + limits <= product.largest), limits


def true_products(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Iterator[TrueProduct]:
    problem = Problem(m, n, k, dtype)
    for name, *pair in operand_pairs(m, k, n, "float64" if dtype == "float64" else "float32", rng):
        a, b = (stored(each, dtype) for each in pair)
        wide_a, wide_b = as_float64(a, dtype), as_float64(b, dtype)
        finite_rows, finite_columns = np.isfinite(wide_a).all(axis=1), np.isfinite(wide_b).all(axis=0)
        whole = np.logical_and.outer(finite_rows, finite_columns)
        only_a, only_b = (np.where(np.isfinite(each), each, 0.0) for each in (wide_a, wide_b))
        with np.errstate(over="ignore", under="ignore"):  # no bound is proven where sizes overflow
            sizes = np.abs(only_a) @ np.abs(only_b)
            if dtype == "float64":
                values = multiply_exactly(problem, only_a, only_b)
                own_error = U * np.abs(values)
            else:  # terms are exact, and so much shorter types have no use for more
                values = only_a @ only_b
                own_error = 2 * k * U * sizes
        norms = _longest(only_a, axis=1) * _longest(only_b, axis=0)
        magnitudes = magnitudes_of(a, dtype), magnitudes_of(b, dtype)
        yield TrueProduct(name, problem, a, b, *magnitudes, values, sizes, own_error, norms, whole)


def stored(values: Array, dtype: DTypeName) -> Array:
    with np.errstate(all="ignore"):
        return values.astype(dtype) if dtype in ("float32", "float64") else narrow(values.astype(np.float32), dtype)


def _longest(lines: Array, axis: int) -> np.longdouble:
    squares = np.square(lines.astype(np.longdouble)).sum(axis=axis)
    return np.longdouble(np.sqrt(squares.max()))


def worst_of(true: TrueProduct, bound: Bound, c: Array) -> tuple[float, int]:
    """The largest error of a product (m, n) over what it may be, 0 where there is no bound, and how many elements that
    is of. A NaN is as wrong as can be."""
    wide = as_float64(c, true.problem.product_dtype).astype(np.longdouble)
    worst, count = 0.0, 0
    for held, limits in true.held(bound):
        ratios = np.abs(wide[held] - true.values[held]) / np.broadcast_to(limits, held.shape)[held]
        worst = max(worst, float(np.where(np.isnan(ratios), np.inf, ratios).max(initial=0.0)))
        count += int(np.count_nonzero(held))
    return worst, count
