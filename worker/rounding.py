"""How far rounding alone may take a product from the true one: the figures behind a check's threshold."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from kernels.numerics import (
    ACCURACY_RANGE,
    ACCURACY_SUM_ROUNDOFF,
    ACCURACY_UNIT_ROUNDOFF,
    DTYPES,
    NORMWISE,
    AccuracyName,
    DTypeName,
    Problem,
)

CONFIDENCE = 5.0  # standard deviations; a row that passes it by chance is looked at again, so it may be sharp
CHECK_STEPS = 8.0  # variance of the check's own rounding, in steps of the type it counts in (measured: below 3)

SMALLEST: dict[DTypeName, float] = {  # positive, subnormals counted
    "float16": 2.0**-24,
    "bfloat16": 2.0**-133,
    "float32": 2.0**-149,
    "float64": 2.0**-1074,
}


@dataclass(frozen=True, slots=True)
class Rounding:
    """Unit roundoffs of the three places where a product of depth `k` rounds, and their underflow."""

    k: int
    operand: float  # operands lowered to a shorter type first (TF32); 0 where they enter as they are
    operand_floor: float  # magnitude below which that is no longer relative to an operand, but to this
    accumulate: float  # each step of the sum
    check: float  # each step of the check's own
    output: float  # once, to the product's type
    underflow: float  # absolute error of an element whose terms lie below the normal range
    largest_sum: float  # beyond it the accumulator overflows
    largest_output: float
    normwise: bool = False  # in proportion to the largest rows of A and columns of B
    confidence: float = CONFIDENCE

    @property
    def threshold(self) -> float:
        """Largest residual that rounding explains, relative to `scale` in `worker/verify.py`, which derives it."""
        output = self.output**2 / (1 + self.k / 3)
        steps = self.accumulate**2 + CHECK_STEPS * self.check**2
        return self.confidence / sqrt(3) * sqrt(steps + 2 * self.operand**2 + output)


def rounding_of(problem: Problem, accuracy: AccuracyName) -> Rounding:
    """For float operands multiplied in the class `accuracy`."""
    product = DTYPES[problem.product_dtype]
    accumulator = DTYPES["float64" if problem.dtype == "float64" else "float32"]
    own = DTYPES[problem.dtype]
    is_exact = accuracy == own.accuracy or ACCURACY_UNIT_ROUNDOFF[accuracy] <= own.unit_roundoff
    operand = 0.0 if is_exact else ACCURACY_UNIT_ROUNDOFF[accuracy]
    operand_floor = ACCURACY_RANGE[accuracy][0] if accuracy in ACCURACY_RANGE else 0.0
    return Rounding(
        k=problem.k,
        operand=operand,
        operand_floor=operand_floor,
        accumulate=ACCURACY_SUM_ROUNDOFF.get(accuracy, accumulator.unit_roundoff),
        check=accumulator.unit_roundoff,
        output=product.unit_roundoff,
        underflow=SMALLEST[product.name] + problem.k * (SMALLEST[accumulator.name] + (operand * operand_floor) ** 2),
        largest_sum=accumulator.largest,
        largest_output=product.largest,
        normwise=accuracy in NORMWISE,
    )
