"""Proven bounds on the error of every element of a product, known before it is computed.

With s = (|A|·|B|)ᵢⱼ, the sum of the magnitudes of an element's terms; R the Euclidean norm of the longest row of A and
S that of the longest column of B; and η the smallest number of the product's type,

    componentwise:  |C − A·B|ᵢⱼ ≤ bound·s + η
    normwise:       |C − A·B|ᵢⱼ ≤ bound·R·S + η

Unlike the promise of an accuracy class (`kernels/model/accuracy.py`), which takes roundings to be independent, these
hold in the worst case: whatever the elements, all roundings may have one sign. They hold for elements of finite
operands whose value the product's type has. As s ≤ R·S, a componentwise bound is a normwise one.

u below is a unit roundoff, γ(n) = n·u / (1 − n·u), and k the depth.

- **conventional**: k products and their sum in any order, each step rounded to the nearest or fused: γ(k) (N. J.
  Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed. 2002, section 3.1). Parts of k added up later are an
  order, too. Products of 16- and 8-bit floats are exact in float32.
- **tensor**: tensor cores multiply exactly and add a few terms at a time, aligned to the largest and cut to the
  accumulator's bits or a few more (M. Fasi, N. J. Higham, M. Mikaitis and S. Pranesh, PeerJ Comput. Sci. 7, 2021,
  e330). A cut takes up to 2·u, once for each term and once for each sum: γ with 4·u. That is how the hardware was
  found to work, and no standard; `tests/gpu/kernels/test_bounds.py` compares.
- **strassen**: 6·γ(k + 12), normwise alone (docs/notes/strassen.md).
- **digits**: (3.25·k + 32)·u (docs/decisions/0056-products-with-a-bound.md).
- **wide**: γ(k) of float64, which has every product of shorter floats, and a rounding to float32.
- **rounded_once**: u.

Operands that are rounded to δ first add (1 + δ)² − 1, with δ for cutting, as hardware may cut. A product of a shorter
type than its sums is rounded once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

from kernels.model.accuracy import SMALLEST_POSITIVE
from kernels.model.kernel import Kernel
from kernels.model.numerics import ACCURACY_RANGE, ACCURACY_UNIT_ROUNDOFF, DTYPES, DTypeName, Problem

SMALLEST_NORMAL = 2.0**-126  # of float32, and of types with its exponents
FLUSH = 2.0**-102  # products above it are 2^24 times what a unit that has no subnormal numbers may lose of a sum
DIGITS_PRODUCT = 2.0**-60  # smallest product of operands that digits' scales take
DIGITS_DEPTH = 1 << 20  # above which zeros among the elements weigh less than the proof takes
ROUNDED_UP = 1.0 + 2.0**-40  # for the arithmetic of this module


@dataclass(frozen=True, slots=True)
class Magnitudes:
    """Magnitudes of an operand's finite elements. An operand of zeros has 0 and infinity."""

    largest: float
    smallest: float  # but zero


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of each kind; None if nothing is proven."""

    componentwise: float | None
    normwise: float | None


BENIGN = Magnitudes(1.0, 1.0)  # gives the lowest bound of every kernel
NOTHING = Bound(None, None)


def any_magnitudes(dtype: DTypeName) -> Magnitudes:
    """The widest magnitudes that operands of a type may have; they give the highest bound of every kernel."""
    if DTYPES[dtype].is_integer:
        return Magnitudes(DTYPES[dtype].largest, 1.0)
    real = DTYPES[dtype].real
    return Magnitudes(DTYPES[real].largest, 2.0**-9 if real == "float8_e4m3" else SMALLEST_POSITIVE[real])


def proven_bound(kernel: Kernel, problem: Problem, a: Magnitudes, b: Magnitudes) -> Bound:
    """The proven bound for operands of these magnitudes. A bound of 1 or more is useless (a product of zeros meets it)
    and is dropped. Nothing is proven for complex products: the parts of an element have separate bounds.
    """
    if DTYPES[problem.dtype].is_complex:
        return NOTHING
    bound = _bound(kernel, problem, a, b)
    return Bound(*(each if each is not None and each < 1.0 else None for each in (bound.componentwise, bound.normwise)))


def _bound(kernel: Kernel, problem: Problem, a: Magnitudes, b: Magnitudes) -> Bound:
    own = DTYPES[problem.dtype]
    if own.is_integer or a.largest == 0.0 or b.largest == 0.0 or problem.k == 0:
        return Bound(0.0, 0.0)
    arithmetic = kernel.arithmetic.get(problem.dtype, "conventional")
    output = DTYPES[own.product].unit_roundoff
    if arithmetic == "rounded_once":
        return Bound(output, output)
    if arithmetic == "wide":
        bound = _rounded(_rounded(gamma(problem.k, 2.0**-53), 2.0**-24), output if output > 2.0**-24 else 0.0)
        return Bound(bound, bound)
    if arithmetic == "unproven" or not _stays_in_range(problem, a, b):
        return NOTHING
    if arithmetic == "strassen":
        return _strassen(problem, a, b)
    if arithmetic == "digits":
        return _digits(problem, a, b)
    sums = _Sums(kernel, problem, a, b)
    short = output if own.accumulator_bytes > DTYPES[own.product].itemsize else 0.0
    componentwise, normwise = (_rounded(each, short) for each in (sums.componentwise, sums.normwise))
    return Bound(componentwise, min((each for each in (componentwise, normwise) if each is not None), default=None))


def _rounded(bound: float | None, roundoff: float) -> float | None:
    return None if bound is None else compounded(bound, roundoff) * ROUNDED_UP


def _stays_in_range(problem: Problem, a: Magnitudes, b: Magnitudes) -> bool:
    """Whether no partial sum can overflow, with room for roundings."""
    largest = DTYPES["float64" if problem.dtype == "float64" else "float32"].largest
    return problem.k * a.largest <= largest / 2 / b.largest


def compounded(*errors: float) -> float:
    """(1 + e)·(1 + e')·… − 1, computed without losing small errors beside the 1."""
    total = 0.0
    for error in errors:
        total += error + total * error
    return total


def gamma(steps: float, roundoff: float) -> float:
    """n·u / (1 − n·u); infinite if n·u is 1 or more."""
    return steps * roundoff / (1.0 - steps * roundoff) if steps * roundoff < 0.5 else inf


class _Sums:
    """Conventional sums and those of tensor cores, before they are rounded to a shorter type."""

    def __init__(self, kernel: Kernel, problem: Problem, a: Magnitudes, b: Magnitudes) -> None:
        self._problem, self._a, self._b = problem, a, b
        accuracy = kernel.accuracy[problem.dtype]
        own = DTYPES[problem.dtype]
        self._is_tensor = kernel.arithmetic.get(problem.dtype) == "tensor"
        accumulator = DTYPES["float64" if problem.dtype == "float64" else "float32"]
        self._tiny = SMALLEST_POSITIVE[accumulator.name]  # twice what a product that underflows is off by
        self._normal = self._tiny / accumulator.unit_roundoff / 2
        roundoff = ACCURACY_UNIT_ROUNDOFF["fp8"] if accuracy == "fp8" else accumulator.unit_roundoff
        self._sum = gamma(problem.k, (4 if self._is_tensor else 1) * roundoff)
        is_lowered = problem.dtype == "float32" and ACCURACY_UNIT_ROUNDOFF[accuracy] > own.unit_roundoff
        self._operand = 2 * ACCURACY_UNIT_ROUNDOFF[accuracy] if is_lowered else 0.0
        self._range = ACCURACY_RANGE.get(accuracy) if is_lowered else None
        self._may_flush = self._is_tensor and problem.dtype != "float64"

    @property
    def componentwise(self) -> float | None:
        product = self._a.smallest * self._b.smallest
        if self._is_out_of_range() or (self._may_flush and (product < FLUSH or self._smallest < SMALLEST_NORMAL)):
            return None
        underflow = self._tiny / product if 0.0 < product < self._normal else 0.0 if product else inf
        of_operands = self._of_operand(self._a.smallest), self._of_operand(self._b.smallest)
        return compounded(*of_operands, self._sum, underflow)

    @property
    def normwise(self) -> float | None:
        """Absolute errors are compared with the largest elements, which R and S are not below."""
        largest = min(self._a.largest, self._b.largest), self._a.largest * self._b.largest
        if self._is_out_of_range() or (self._may_flush and largest[0] < 2.0**-60) or largest[1] == 0.0:
            return None
        root = sqrt(self._problem.k)
        of_operands = 0.0
        for magnitudes in (self._a, self._b):
            floor = 2 * self._operand * self._range[0] * root / magnitudes.largest if self._range else 0.0
            of_operands = compounded(of_operands, self._operand + floor)
        underflow = self._problem.k * (2.0**-48 if self._may_flush else self._tiny / largest[1])
        return compounded(of_operands, self._sum) + underflow

    @property
    def _smallest(self) -> float:
        return min(self._a.smallest, self._b.smallest)

    def _of_operand(self, smallest: float) -> float:
        """Relative to any element, the smallest among them."""
        return self._operand * max(1.0, self._range[0] / smallest) if self._range else self._operand

    def _is_out_of_range(self) -> bool:
        """Whether an operand may become infinite on its way."""
        largest = self._range[1] if self._range else 2.0**127 if self._operand else inf
        return max(self._a.largest, self._b.largest) > largest


def _strassen(problem: Problem, a: Magnitudes, b: Magnitudes) -> Bound:
    product = a.largest * b.largest
    if product < 2.0**-100:
        return NOTHING
    bound = 6 * gamma(problem.k + 12, 2.0**-24) + 6 * problem.k * 2.0**-49
    return Bound(None, bound * ROUNDED_UP)


def _digits(problem: Problem, a: Magnitudes, b: Magnitudes) -> Bound:
    has_limits = min(a.smallest, b.smallest) >= SMALLEST_NORMAL and a.smallest * b.smallest >= DIGITS_PRODUCT
    if not has_limits or problem.k > DIGITS_DEPTH:
        return NOTHING
    bound = (3.25 * problem.k + 32) * 2.0**-24
    return Bound(bound, bound)
