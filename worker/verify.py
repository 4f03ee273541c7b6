"""The check that every product passes before it is returned: Freivalds' test with a threshold that fits rounding.

For a random vector x of ±1, C·x is compared with A·(B·x): three passes over the matrices, O(n²) beside the product's
O(n³). A wrong element d changes its row by exactly ±d, so the vector cannot hide it; only rounding noise can.

**How much noise.** Let e be the rounding errors of row i of C. Because the signs x are drawn apart from e, the row's
residual Σⱼ xⱼeⱼ passes λ·√(Σⱼ eⱼ²) with probability below 2·exp(−λ²/2), whatever the errors look like. Step t of a sum
rounds its partial sum sₜ by at most u·|sₜ|, about u·|sₜ|/√3 in the mean square, so eⱼ² ≈ u²/3 · Σₜ sₜ². Two kinds of
data give Σₜ sₜ². Terms of random signs: sₜ² grows as t/k · ‖aᵢ‖²‖bⱼ‖²/k, and the sum is half of ‖aᵢ‖²‖bⱼ‖². Terms of
one sign: sₜ = t/k · cᵢⱼ, and the sum is k/3 · cᵢⱼ². Added up over the row,

    scaleᵢ² = ‖aᵢ‖²·‖B‖² + k/3·‖cᵢ‖²        (and n·(underflow/u)² for elements below the normal range)

covers both, and residual = maxᵢ |C·x − A·(B·x)|ᵢ / scaleᵢ is compared with λ/√3·u, to which the one rounding to the
product's type adds u_out·‖cᵢ‖ ≤ u_out·scaleᵢ/√(1 + k/3), and the check's own arithmetic a few u. So the threshold
depends on element type and depth alone (`Rounding.threshold`).

Operands that are first rounded to float16 change by up to f·u where they are smaller than its least normal number f.
To scaleᵢ² that adds k/2·f²·(‖B‖² + n·‖aᵢ‖²).

Where errors are in proportion to norms (`fp32_normwise`), the largest row of A, and of C, takes the place of row i.

**What that leaves out.** Data may be worse than random: terms that rise and fall again (large partial sums, small
result), or constants, which round the same way each time. Such rows pass the threshold without being wrong. The
few worst rows are therefore summed again in float64, term by term, and each element compared with a bound built from
its own partial sums (`worker/explain.py`). Only what that bound cannot explain is a wrong product.

**NaN, infinity, overflow.** An element of C is finite exactly where its row of A and column of B are and its value
fits the type. The passes count what is not finite, so that is held for every element; rows and columns with such
elements leave the vector test, and a sample of their elements is judged one by one. Integers are checked exactly,
modulo 2³².
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp

import numpy as np

from jobs.matrices import Array
from jobs.models import Verification
from kernels.numerics import AccuracyName, Problem
from worker.explain import Operands, worst_of_rows, worst_of_sample
from worker.rounding import Rounding, rounding_of
from worker.sums import Sums

NOT_CHECKED = Verification(method="off", residual=None, threshold=None, passed=None)
WORST_ROWS = 4  # of those that pass the threshold, summed again term by term
SAFE_SQUARES = (1e-140, 1e140)  # sums of squares outside it are taken again, scaled by a power of two


def check(problem: Problem, accuracy: AccuracyName, operands: Operands, rng: np.random.Generator) -> Verification:
    """Checks a product computed in the class `accuracy`. `rng` must be fresh: known signs could be fooled."""
    signs = rng.integers(0, 2, size=(1, problem.n)) * 2 - 1
    if problem.product_dtype == "int32":
        return _verification(_integer_residual(operands, signs), 0.0)
    rounding = rounding_of(problem, accuracy)
    with np.errstate(all="ignore"):  # what overflows here is seen and met
        residual = _float_residual(operands, signs.astype(np.float64), rounding, rng)
    return _verification(residual, rounding.threshold)


def _verification(residual: float, threshold: float) -> Verification:
    return Verification(method="freivalds", residual=residual, threshold=threshold, passed=residual <= threshold)


def _integer_residual(operands: Operands, signs: Array) -> float:
    expected = operands.a.times_modulo(operands.b.times_modulo(signs))
    wrong = (operands.c.times_modulo(signs) - expected).astype(np.int32)  # modulo 2³²
    return float(np.abs(wrong.astype(np.int64)).max(initial=0))


def _float_residual(operands: Operands, signs: Array, rounding: Rounding, rng: np.random.Generator) -> float:
    passes = _three_passes(operands, signs)
    if operands.a.dtype == "float64" and not passes.are_safe:
        passes = _three_passes(operands, signs, _exponent(operands.a.largest()), _exponent(operands.b.largest()))
    bad = _not_finite(passes)
    if bad.missing:
        return float("inf")  # a finite element where a NaN or an infinity goes in
    ratios = np.where(bad.rows, 0.0, passes.ratios(rounding))
    residual = _explained(operands, ratios, rounding)
    if bad.rows.any() or bad.columns.any():
        sample = worst_of_sample(operands, bad.rows, bad.columns, rounding, rng)
        residual = max(residual, sample * rounding.threshold)
    return residual


def _explained(operands: Operands, ratios: Array, rounding: Rounding) -> float:
    """The largest ratio; where rows pass the threshold, that of the worst element among the worst rows."""
    passing = ratios > rounding.threshold
    if not passing.any():
        return float(ratios.max(initial=0.0))
    worst = np.argsort(ratios, axis=None)[-WORST_ROWS:]
    rows = [(int(item), int(row)) for item, row in zip(*np.unravel_index(worst, ratios.shape), strict=True)]
    element = worst_of_rows(operands, [at for at in rows if passing[at]], rounding)
    if element > 1.0:
        return float(ratios.max())
    return max(float(ratios[~passing].max(initial=0.0)), element * rounding.threshold)


def _exponent(magnitude: float) -> int:
    return frexp(magnitude)[1]


@dataclass(frozen=True, slots=True)
class _Passes:
    """Sums of the three passes, all times 2^-exponent."""

    a: Sums
    b: Sums
    c: Sums
    bad_columns: Array  # bool (batch or 1, n): columns of B with a NaN or an infinity; left out of the vector
    exponent: int

    @property
    def are_safe(self) -> bool:
        """Whether no square over- or underflowed; only float64 has elements that large or small."""
        low, high = SAFE_SQUARES
        totals = self.a.squares.sum(), self.b.squares.sum(), self.c.squares.sum()
        return all(total == 0.0 or low < total < high for total in totals) and bool(totals[0] and totals[1])

    def ratios(self, rounding: Rounding) -> Array:
        """|C·x − A·(B·x)| of each row relative to its scale: (batch, m)."""
        n = self.bad_columns.shape[-1]
        unit = rounding.threshold / rounding.confidence
        rows = self.a.squares, self.c.squares
        floor = n * np.square(np.ldexp(rounding.underflow, -self.exponent) / unit)
        whole_b = self.b.squares.sum(axis=-1, keepdims=True)
        of_a, of_c = (each.max(axis=-1, keepdims=True, initial=0.0) if rounding.normwise else each for each in rows)
        small = rounding.k / 2 * rounding.operand_floor**2 * (whole_b + n * of_a)
        scale = np.sqrt(of_a * whole_b + rounding.k / 3 * of_c + floor + small)
        difference = np.abs(self.c.products - self.a.products)
        ratios = np.where(difference == 0.0, 0.0, difference / scale)
        beyond = np.isnan(ratios) | (np.isinf(scale) & np.isfinite(floor))  # an element too large to be squared
        return np.where(beyond, np.inf, ratios)


def _three_passes(operands: Operands, signs: Array, exponent_a: int = 0, exponent_b: int = 0) -> _Passes:
    b = operands.b.times(signs, exponent_b)
    bad_columns = np.zeros(signs.shape, dtype=bool)
    if b.bad.any():
        bad_columns = operands.b.transposed().times(np.ones((1, operands.b.shape[1]))).bad > 0
        signs = np.where(bad_columns, 0.0, signs)
        b = operands.b.times(signs, exponent_b)
    a = operands.a.times(b.products, exponent_a)
    c = operands.c.times(signs, exponent_a + exponent_b)
    return _Passes(a, b, c, bad_columns, exponent_a + exponent_b)


@dataclass(frozen=True, slots=True)
class _NotFinite:
    """Where the vector test does not look."""

    missing: bool  # some element of C is finite though its row of A or its column of B is not
    rows: Array  # bool (batch, m): their row of A is not finite, or elements of C overflowed
    columns: Array  # bool (batch or 1, n)


def _not_finite(passes: _Passes) -> _NotFinite:
    n = passes.bad_columns.shape[-1]
    in_columns = passes.bad_columns.sum(axis=-1, keepdims=True)
    expected = np.where(passes.a.bad > 0, n, in_columns)
    rows = (passes.a.bad > 0) | (passes.c.bad > expected)
    return _NotFinite(bool(np.any(passes.c.bad < expected)), rows, passes.bad_columns)
