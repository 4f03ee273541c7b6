"""What an accuracy class promises: a bound on the error of every element of a product.

Without overflow, and with s the sum of the magnitudes of an element's terms, s = (|A|·|B|)ᵢⱼ, and q the root of the sum
of their squares,

    |C − A·B|ᵢⱼ ≤ e + output·(|A·B|ᵢⱼ + e) + underflow,   e = sum·s + operand_root·q + operand_value·|A·B|ᵢⱼ

`sum` is c·√k·u. Rounding each step of a sum of k terms by at most u gives k·u in the worst case (N. J. Higham, Accuracy
and Stability of Numerical Algorithms, 2nd ed. 2002, section 3.5). Roundings that are independent and of mean zero give
λ·√k·u with a probability that depends on λ alone (N. J. Higham and T. Mary, SIAM J. Sci. Comput. 41(5), 2019,
A2815-A2835); c = 4 is that λ. Where the roundings of consecutive steps have one sign, as on constant data, √k is not
enough. Such an element is allowed the error that its partial sums sₜ explain, which is at most k·u·s:

    sum·s is max(c·√k·s, 2·Σₜ|sₜ|)·u.

Operands that are rounded to a shorter type first, by u each, move each term by up to 2·u of it, independently: 6·u·q is
more than seven standard deviations. Hardware that truncates them moves all terms in the same direction, by at most 2·u
of their sum. Operands below the shorter type's normal numbers are rounded as the smallest of these is. If roundings are
not independent, as for equal elements, the bound allows the exact product of the rounded operands.

For classes in NORMWISE, s is the Euclidean norm of the longest row of A times that of the longest column of B.

For operands with block scales (kernels/model/scales.py), A and B are the dequantised matrices. In the class `fp8` sums
end after each 128 steps of k, so √k is √128 at most, and partial sums sₜ are those of such a block; the blocks are
added up in float32. There, and in any class, products with scales round: one of two scales, one of a sum with that, and
one each where the check multiplies a float32 copy of either operand, with room for as much again. So

    sum = (c·√min(k, 128)·u + c·√⌈k/128⌉·u₃₂ in `fp8`, else c·√k·u) + 8·u₃₂,   u₃₂ = 2^-24.

The real and the imaginary part of an element of a complex product are each a real sum of 2k terms, and each has this
bound for itself: of the real part, s is (|Re A|·|Re B| + |Im A|·|Im B|)ᵢⱼ. That is more than is usual, which is a bound
on |C − A·B|ᵢⱼ in proportion to (|A|·|B|)ᵢⱼ (Higham, section 3.6): it follows, with a factor of √2 at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt

from kernels.model.numerics import (
    ACCURACY_RANGE,
    ACCURACY_SUM_ROUNDOFF,
    ACCURACY_UNIT_ROUNDOFF,
    DTYPES,
    NORMWISE,
    AccuracyName,
    DTypeName,
)
from kernels.model.scales import SCALE_DEPTH

SUM_FACTOR = 4.0  # c: the λ of a sum with independent roundings
DRIFT_FACTOR = 2.0  # times Σₜ|sₜ|: once for the roundings, once more for other orders of summation
OPERAND_FACTOR, CUT_FACTOR = 6.0, 2.0  # of operands' roundings, independent ones and those of one sign
SCALE_FACTOR = 8.0  # of what products with scales round

SMALLEST_POSITIVE: dict[DTypeName, float] = {  # subnormal numbers included
    "float16": 2.0**-24,
    "bfloat16": 2.0**-133,
    "float32": 2.0**-149,
    "float64": 2.0**-1074,
}
SMALLEST_NORMAL = 2.0**-126  # of float32, and of the types with its exponents


@dataclass(frozen=True, slots=True)
class ElementBound:
    """Coefficients of the bound above. All are 0 for integer operands."""

    sum: float
    sum_roundoff: float  # u of one step of the sum
    operand: float  # u of the type that operands are rounded to first; 0 where they are used as they are
    operand_floor: float  # magnitude below which that roundoff is relative to this, not to the operand
    output: float  # u of the product's type
    underflow: float  # absolute
    normwise: bool

    @property
    def operand_root(self) -> float:
        return OPERAND_FACTOR * self.operand

    @property
    def operand_value(self) -> float:
        return CUT_FACTOR * self.operand

    @property
    def factors(self) -> tuple[float, float, float, float]:
        """The whole bound as factors of s, of q and of |A·B|ᵢⱼ, plus an absolute term."""
        outer = 1.0 + self.output
        return self.sum * outer, self.operand_root * outer, self.operand_value * outer + self.output, self.underflow


def sum_depth(accuracy: AccuracyName, k: int, *, is_scaled: bool) -> int:
    """The number of steps of the sums that round by `sum_roundoff`."""
    return min(k, SCALE_DEPTH) if is_scaled and accuracy in ACCURACY_SUM_ROUNDOFF else k


def element_bound(accuracy: AccuracyName, dtype: DTypeName, k: int, *, is_scaled: bool = False) -> ElementBound:
    """The bound for operands of `dtype` multiplied in the class `accuracy` at depth `k`; for complex ones, of each
    part. `is_scaled`: they have block scales.
    """
    if (part := DTYPES[dtype].part) is not None:
        return element_bound(accuracy, part, 2 * k)
    own = DTYPES[dtype]
    if own.is_integer:
        return ElementBound(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, normwise=False)
    product, accumulator = DTYPES[own.product], DTYPES["float64" if dtype == "float64" else "float32"]
    lowered = accuracy != own.accuracy and ACCURACY_UNIT_ROUNDOFF[accuracy] > own.unit_roundoff
    operand = ACCURACY_UNIT_ROUNDOFF[accuracy] if lowered else 0.0
    floor = ACCURACY_RANGE[accuracy][0] if accuracy in ACCURACY_RANGE else SMALLEST_NORMAL if lowered else 0.0
    roundoff = ACCURACY_SUM_ROUNDOFF.get(accuracy, accumulator.unit_roundoff)
    depth = sum_depth(accuracy, k, is_scaled=is_scaled)
    own_sum = SUM_FACTOR * sqrt(depth) * roundoff
    if is_scaled:
        blocks = ceil(k / SCALE_DEPTH) if depth < k else 0
        own_sum += (SUM_FACTOR * sqrt(blocks) + SCALE_FACTOR) * accumulator.unit_roundoff
    return ElementBound(
        sum=own_sum,
        sum_roundoff=roundoff,
        operand=operand,
        operand_floor=floor,
        output=product.unit_roundoff,
        underflow=SMALLEST_POSITIVE[product.name] + k * (SMALLEST_POSITIVE[accumulator.name] + (operand * floor) ** 2),
        normwise=accuracy in NORMWISE,
    )
