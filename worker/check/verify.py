"""The check that every product passes before it is returned: random projections of its rows, compared with those of its
operands, and every element of what they point at computed again.

Freivalds' test (R. Freivalds, "Probabilistic machines can use less running time", 1977) compares C·x with A·(B·x) for a
random vector x: O(n²) beside the product's O(n³). The classical x of ±1 is blind to equal and opposite errors half of
the time, and rounding noise hides whatever is smaller than the largest column makes it. So here:

**Vectors.** Column j has the exponent eⱼ of ‖bⱼ‖. Eight vectors are drawn after the kernel was launched, by
xⱼ = ±(1 + r)·2^-eⱼ with r uniform in [0, 1); wⱼ = 7/3·4^-eⱼ is the mean of xⱼ². All columns weigh alike, whatever their
units. Where bⱼ is zero, so is cⱼ, and eⱼ is the least that any column may have. Columns are taken in groups of at most
k, so that the noise of a long row does not grow over what one element may be off by, and no group has only a few if
that can be helped (`group_width`). In each group and row, with Y = B·x, P = A·Y and S = C·x, the residual is |S − P|.

**How large rounding makes it.** Let e be the rounding errors of row i of C. As x is drawn apart from e, the residual
is a sum of terms of random sign with variance Σⱼ wⱼeⱼ². Step t of a sum rounds its partial sum sₜ by at most u·|sₜ|,
about u·|sₜ|/√3 in the mean square, so eⱼ² ≈ u²/3·Σₜ sₜ². Terms pₜ = aᵢₜbₜⱼ of random signs give Σₜ sₜ² ≤ k·Σₜ pₜ², and
terms of one sign sₜ = t/k·cᵢⱼ, so Σₜ sₜ² = k/3·cᵢⱼ². Summed over the group, with Z_t = Σⱼ wⱼbₜⱼ², Q = Σₜ aᵢₜ²Z_t and
R = Σⱼ wⱼcᵢⱼ², the variance is u²/3·(k·Q + k/3·R). Operands that are rounded first move each term by 2/3·u_op² of its
square, independently: 2/3·u_op²·Q, with no factor k; and all terms of a truncated operand alike, which is granted as
4/3·u_op²·R. The rounding to the product's type adds u_out²/3·R. The row is suspicious beyond T, five times the root of
it all (`Rounding.tolerance`). Q follows each row and each step of k, so a row whose large element meets zeros is held
to what is left of it. Where squares would cost a pass of their own, Q and R are estimated by the means of eight random
projections.

Tensor cores truncate partial sums, and so err by u·|sₜ| towards 0 in the mean, not by ±u·|sₜ|/√3. Along a sum such
errors add up, as √k beside T. From column to column they still have random signs, so a row of many columns stays below
T. A group of one column has no others to average with: where its element is small, and so has little of its own to
round, a right product in 16 bits may come close to T, or beyond (docs/decisions/0090-rows-again-on-the-device.md).

**What can pass.** Let a fault D change row i, and let ρ be the largest |Dᵢⱼ|·2^-eⱼ/T in a group.
- One wrong element of a group is caught for certain from ρ = 2 on: |xⱼ| ≥ 2^-eⱼ, and noise stays below T. For normal
  float32 operands T is about 0.9 of the class's bound, so an element beyond its bound is caught. Where elements of a
  row differ much, as in sparse or log-normal data, or where the bound is one rounding to a short type, an element may
  be beyond its own bound and below the noise of its row: such faults are not promised to be found.
- Any other fault passes one vector with a probability of at most 1/ρ, whatever else is wrong in the row: given all
  other weights, xⱼ must fall into an interval of length 2T/|Dᵢⱼ|, where its density is at most 2^eⱼ/2. Vectors are
  independent: ρ^-8 for all eight, below 2^-40 from ρ = 32 on. A fault of several rows must pass in each.
- Two columns swapped, or rows, a stale row, a tile off by a constant: ρ is of the order of 1/(u·√k), above 1,000.

**What is beyond the tolerance** may be right: sums that rise and fall, or drift. Each suspicious row is therefore
computed again in float64, every element, and compared with its class's bound (`worker/check/elementwise.py`). A GPU
does so where the product lies, and leaves to the host what it finds to be beyond (`worker/cuda/check/recheck.py`). Only
an element beyond that is a wrong product. Of a small product, and on a GPU of one with small k, every element is
computed again in the first place, without any vector: nothing beyond its class's bound passes.

**NaN, infinity, overflow, underflow.** Rows of A and columns of B with such elements leave the vectors, and so does a
column of C with an element that overflowed, and one of B whose norm is below the smallest normal number of C's type, or
whose elements are mostly below that of the type to which they are rounded: its weight would raise what is granted for
underflow above everything else. All are computed again element by element.
What is left is tested as ever, so none of these hides anything else. float64 matrices have exponents of rows and
columns taken out first, so terms near either end of the range neither over- nor underflow.

**Integers** are compared exactly, with eight vectors of random integers. A fault D passes a vector of integers drawn
from 4,096 with a probability of at most 2^-12, as given the others one xⱼ alone is right: 2^-96 for eight. Where sums
may pass 2³¹ only residues modulo 2³² are known. There a fault of 2³¹ is seen through the lowest bit of x alone, so the
test is made four times over: 2^-32 for such, and less for all others.

**Products with an epilogue of their kernel's**, D = alpha·A·B + beta·C + bias rounded once, are checked as the longer
sums that they are: D - beta·C - bias takes the place of C above, alpha·P that of P, and D's rounding is in proportion
to D (docs/decisions/0064-fused-epilogues.md). Columns weigh by what is added to them, too.

**Complex products** are checked as the real ones that they are (`worker/check/views/as_real.py`): m × 2n with 2k terms.
So real and imaginary parts are elements of their own, each with its own bound, and all of the above holds for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from jobs.models import Verification
from kernels.model.groups import groups_of
from kernels.model.numerics import AccuracyName, DTypeName, Problem
from worker.check.checkable import Checkable
from worker.check.elementwise import Operands, worst_of_rows, worst_within
from worker.check.grouped import GroupedProduct
from worker.check.rounding import Rounding, rounding_of
from worker.check.row_errors import AllWithin, RowErrors
from worker.check.sketch import RUN

NOT_CHECKED = Verification(method="off", residual=None, threshold=None, passed=None)
MIN_WIDTH = 64  # columns that a group may have, whatever k
STEPS = ((4096, 1024), (1024, 512), (RUN, RUN), (0, 1))  # of a group: above what width, and multiple of what
MAX_DIRECT, MAX_ITEMS = 1 << 23, 64  # multiply-adds, and matrices, up to which the host recomputes every element
LARGEST_INT8_DEPTH = (1 << 17) - 1  # largest k whose sums stay below 2³¹
WRAPPED_ROUNDS = 4


def check(
    problem: Problem, accuracy: AccuracyName, operands: Checkable | GroupedProduct, rng: np.random.Generator
) -> Verification:
    """Checks a product computed in the class `accuracy`. `rng` must be freshly seeded: predictable vectors could be
    fooled. Of complex matrices, `operands` are those of `problem.as_real`.
    """
    if isinstance(operands, GroupedProduct):
        each = zip(groups_of(problem), operands.products, strict=True)
        found = [check(group.problem, accuracy, own, rng) for group, own in each]
        return max(found, key=lambda of_group: (not of_group.passed, of_group.residual))
    problem = problem.as_real
    if problem.product_dtype == "int32":
        return _verification(_integer_residual(problem, operands, rng), 0.0)
    rounding = delivered_rounding(problem, accuracy, operands.after)
    return _verification(_float_ratio(problem, operands, rounding, rng) * rounding.threshold, rounding.threshold)


def delivered_rounding(problem: Problem, accuracy: AccuracyName, after: tuple[float, DTypeName] | None) -> Rounding:
    """The Rounding of a real product of floats as it is delivered. `after` is as in `Checkable`."""
    rounding = rounding_of(problem, accuracy)
    return rounding if after is None else rounding.fused(*after)


def _verification(residual: float, threshold: float) -> Verification:
    return Verification(method="freivalds", residual=residual, threshold=threshold, passed=residual <= threshold)


def _integer_residual(problem: Problem, operands: Checkable, rng: np.random.Generator) -> float:
    """The number of wrong rows, as the residual of an integer product."""
    if problem.k == 0:
        c, rows, columns = operands.elementwise.c, np.arange(problem.m)[:, np.newaxis], np.arange(problem.n)
        return float(sum(np.count_nonzero(c.elements(item, rows, columns)) for item in range(problem.batch)))
    may_wrap = wraps(problem)
    rounds = WRAPPED_ROUNDS if may_wrap else 1
    wrong = operands.wrong_rows(wraps=may_wrap, rng=rng)
    for _ in range(rounds - 1):
        wrong |= operands.wrong_rows(wraps=may_wrap, rng=rng)
    return float(np.count_nonzero(wrong))


def wraps(problem: Problem) -> bool:
    """Whether sums of integers may pass 2³¹, so that more than one sketch is made."""
    return problem.dtype == "int32" or (problem.product_dtype == "int32" and problem.k > LARGEST_INT8_DEPTH)


@lru_cache(maxsize=1024)
def group_width(n: int, k: int) -> int:
    """The number of columns in a group, of n: at most about k, and such that the last group has a quarter of it, if
    possible. A multiple of the host's runs, or shorter than one; in long groups also of blocks that the device digests.
    """
    widest = max(k, MIN_WIDTH) if k < RUN else k // RUN * RUN
    return widest if n <= widest else max(_widths(widest), key=lambda width: min(_last(n, width) / width, 0.25))


def _widths(widest: int) -> Iterator[int]:
    """Candidates for the width of a group, from `widest` down to a third of it."""
    width = widest
    while 3 * width >= widest:
        yield width
        step = next(step for from_width, step in STEPS if width > from_width)
        width = (width - 1) // step * step


def _last(n: int, width: int) -> int:
    """The number of columns in the last group."""
    return n - (n - 1) // width * width


def max_direct_batch(problem: Problem) -> int:
    """The most such products in one launch for which the host still recomputes every element; 0 if it does not do so
    even for one.
    """
    multiply_adds = problem.m * problem.n * problem.k
    if problem.product_dtype == "int32" or multiply_adds > MAX_DIRECT:
        return 0
    return min(MAX_ITEMS, MAX_DIRECT // max(1, multiply_adds))


def is_direct(problem: Problem) -> bool:
    """Whether the host recomputes every element, because that takes no longer than a sketch."""
    multiply_adds = problem.batch * problem.m * problem.n * problem.k
    return problem.k == 0 or (multiply_adds <= MAX_DIRECT and problem.batch <= MAX_ITEMS)


def _float_ratio(problem: Problem, operands: Checkable, rounding: Rounding, rng: np.random.Generator) -> float:
    """The largest error divided by its tolerance."""
    if is_direct(problem):
        return _direct(problem, operands.elementwise, rounding)
    found = operands.direct(rounding) or _sketched(problem, operands, rounding, rng)
    if (largest := found.largest_within) is not None:
        return largest
    assert isinstance(found, RowErrors)
    rows = np.broadcast_to((found.worst > 1.0) | found.bad_rows, (problem.batch, problem.m))
    columns = np.broadcast_to(found.odd_columns | found.bad_columns, (problem.batch, problem.n))
    worst = float(found.worst[~rows].max(initial=0.0))
    return max(worst, operands.recomputed(rows, columns, rounding))


def _sketched(
    problem: Problem, operands: Checkable, rounding: Rounding, rng: np.random.Generator
) -> RowErrors | AllWithin:
    """Each row's worst residual divided by its tolerance. If columns of C overflowed, a second sketch leaves them
    out.
    """
    width = group_width(problem.n, problem.k)
    found = operands.sketched(rounding, width=width, excluded=None, rng=rng)
    if isinstance(found, AllWithin) or not (odd := found.odd_columns).any():
        return found
    left_out = np.broadcast_to(odd | found.bad_columns, (problem.batch, problem.n))
    again = operands.sketched(rounding, width=width, excluded=left_out, rng=rng)
    if isinstance(again, AllWithin):
        none = np.zeros((1, 1), np.bool_)
        return RowErrors(np.full((problem.batch, problem.m), again.largest_within), none, none, odd)
    return replace(again, odd_columns=odd)


def _direct(problem: Problem, operands: Operands, rounding: Rounding) -> float:
    if (worst := worst_within(operands, rounding)) is not None:
        return worst
    rows = np.arange(problem.m)
    return max((worst_of_rows(operands, item, rows, rounding) for item in range(problem.batch)), default=0.0)
