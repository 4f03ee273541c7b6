"""The check of an epilogue: whether every element of D equals activation(alpha·P + beta·C + bias).

P = A·B is checked separately (`worker/check/verify.py`), and D follows from P, C and the bias element by element. Sums
and `relu` are operations that IEEE 754 defines to the last bit, so an element is computed again and must be equal. For
other activations, two values bound the result of a correct computation, and an element must lie between them, rounded
as it was. So a fault in any element is detected. NaN equals NaN, and zeros of both signs are equal. For complex numbers
this holds part by part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from jobs.formats.elements import Array
from kernels.model.activations import FLOAT64, ActivationName, Arithmetic
from kernels.model.numerics import DTYPES, DTypeName
from worker.check.activations import interval
from worker.check.elements import as_float64, narrow, widen

BLOCK_ELEMENTS = 1 << 18


@dataclass(frozen=True, slots=True)
class After:
    """The rest of the epilogue after alpha·P + beta·C. `bias` is 1×n or m×1, in stored form of the product's type;
    `output` is D's type if it differs. `arithmetic` is that in which the activation was computed.
    """

    bias: Array | None = None
    activation: ActivationName | None = None
    output: DTypeName | None = None
    arithmetic: Arithmetic = FLOAT64


NOTHING = After()


def wrong_elements(
    d: Array, p: Array, c: Array | None, alpha: complex, beta: complex, dtype: DTypeName, after: After = NOTHING
) -> int:
    """The number of wrong elements. `d` and `p` (batch, m, n), `c` (batch or 1, m, n) are all in stored form of the
    product type `dtype`, except `d` if `after` has another type. A term whose factor is 0 is left out, whatever its
    elements are; `c` may then be None.
    """
    wrong = 0
    rows = max(1, BLOCK_ELEMENTS // max(1, d.shape[2]))
    for item in range(d.shape[0]):
        for first in range(0, d.shape[1], rows):
            at = slice(first, first + rows)
            added = None if c is None or beta == 0.0 else c[item % len(c), at]
            given = d[item, at]
            if DTYPES[dtype].is_complex:
                wrong += _complex_differences(given, _expected_complex(p[item, at], added, alpha, beta))
            else:
                lowest, highest = _bounds(p[item, at], added, alpha, beta, dtype, _part_of(after, at, d.shape[1]))
                wrong += _outside(given, lowest, highest, after.output or dtype)
    return wrong


def _part_of(after: After, rows: slice, m: int) -> After:
    """The part of the epilogue for these rows."""
    if after.bias is None or after.bias.shape[0] != m:
        return after
    return replace(after, bias=after.bias[rows])


def _bounds(
    p: Array, c: Array | None, alpha: complex, beta: complex, dtype: DTypeName, after: After
) -> tuple[Array, Array]:
    """The lower and upper bound of D's elements, in stored form."""
    terms = [(factor.real, each) for factor, each in ((alpha, p), (beta, c)) if factor != 0.0 and each is not None]
    terms += [] if after.bias is None else [(1.0, after.bias)]
    if DTYPES[dtype].is_integer:
        exact = sum((int(factor) * each.astype(np.int64) for factor, each in terms), np.zeros(p.shape, np.int64))
        wrapped: Array = exact.astype(np.int32)
        return wrapped, wrapped
    with np.errstate(all="ignore"):
        scaled = [factor * as_float64(each, dtype) for factor, each in terms]
        total: Array = np.broadcast_to(sum(scaled[1:], scaled[0]) if scaled else np.zeros(()), p.shape)
        output = after.output or dtype
        if after.activation is None:
            rounded = _rounded(total, output)
            return rounded, rounded
        lowest, highest = interval(after.activation, total, after.arithmetic)
        return _rounded(lowest, output), _rounded(highest, output)


def _rounded(values: Array, dtype: DTypeName) -> Array:
    """The values rounded to a type, in stored form; to 16 bits by way of float32."""
    return values if dtype == "float64" else narrow(values.astype(np.float32), dtype)


def _expected_complex(p: Array, c: Array | None, alpha: complex, beta: complex) -> Array:
    """The expected complex elements, in stored form. Within each of the two terms, the products of parts are added
    first, leaving out those with a factor part of 0.
    """
    expected = np.zeros(p.shape, p.dtype)
    matrices = [(factor, each) for factor, each in ((alpha, p), (beta, c)) if factor != 0.0 and each is not None]
    with np.errstate(all="ignore"):
        for name, of_real, of_imaginary in (("real", 1.0, -1.0), ("imag", 1.0, 1.0)):
            other = "imag" if name == "real" else "real"
            sums = []
            for factor, each in matrices:
                pairs = (
                    (of_real * factor.real, getattr(each, name)),
                    (of_imaginary * factor.imag, getattr(each, other)),
                )
                products = [part * values.astype(np.float64) for part, values in pairs if part != 0.0]
                sums.append(sum(products[1:], products[0]))
            if sums:
                setattr(expected, name, sum(sums[1:], sums[0]).astype(expected.real.dtype))
    return expected


def _outside(given: Array, lowest: Array, highest: Array, dtype: DTypeName) -> int:
    if DTYPES[dtype].is_integer:
        return int(np.count_nonzero(given != lowest))
    given, lowest, highest = (widen(each, dtype) for each in (given, lowest, highest))
    is_between = (lowest <= given) & (given <= highest)
    return int(np.count_nonzero(~is_between & ~(np.isnan(given) & np.isnan(lowest))))


def _complex_differences(given: Array, expected: Array) -> int:
    return int(np.count_nonzero(_differ(given.real, expected.real) | _differ(given.imag, expected.imag)))


def _differ(given: Array, expected: Array) -> Array:
    wrong: Array = (given != expected) & ~(np.isnan(given) & np.isnan(expected))
    return wrong
