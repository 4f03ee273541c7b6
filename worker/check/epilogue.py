"""The check of what follows a product: is every element of D what alpha·P + beta·C gives?

P = A·B has a check of its own (`worker/check/verify.py`), and D follows from P and C element by element, by operations
that IEEE 754 defines to the last bit. So each element is computed again, and must be equal: no fault of any element
passes. NaN equals NaN, and zeros of both signs are equal. Of complex numbers that holds part by part.
"""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES, DTypeName
from worker.check.elements import as_float64, narrow, widen

BLOCK_ELEMENTS = 1 << 18


def wrong_elements(d: Array, p: Array, c: Array | None, alpha: complex, beta: complex, dtype: DTypeName) -> int:
    """How many there are. `d` and `p` (batch, m, n), `c` (batch or 1, m, n), all of them in stored form of `dtype`, a
    product's type. A term whose factor is 0 is left out, whatever its elements are; `c` may be None then."""
    wrong = 0
    rows = max(1, BLOCK_ELEMENTS // max(1, d.shape[2]))
    for item in range(d.shape[0]):
        for first in range(0, d.shape[1], rows):
            at = slice(first, first + rows)
            added = None if c is None or beta == 0.0 else c[item % len(c), at]
            expected = _expected(p[item, at], added, alpha, beta, dtype)
            wrong += _differences(d[item, at], expected, dtype)
    return wrong


def _expected(p: Array, c: Array | None, alpha: complex, beta: complex, dtype: DTypeName) -> Array:
    """In stored form."""
    if DTYPES[dtype].is_complex:
        return _expected_complex(p, c, alpha, beta)
    terms = [(factor.real, each) for factor, each in ((alpha, p), (beta, c)) if factor != 0.0 and each is not None]
    if DTYPES[dtype].is_integer:
        exact = sum((int(factor) * each.astype(np.int64) for factor, each in terms), np.zeros(p.shape, np.int64))
        wrapped: Array = exact.astype(np.int32)
        return wrapped
    with np.errstate(all="ignore"):
        scaled = [factor * as_float64(each, dtype) for factor, each in terms]
        total: Array = sum(scaled[1:], scaled[0]) if scaled else np.zeros(p.shape)
        return total if dtype == "float64" else narrow(total.astype(np.float32), dtype)


def _expected_complex(p: Array, c: Array | None, alpha: complex, beta: complex) -> Array:
    """In stored form. Of each of the two terms, the products of its parts that are not with a 0 are added up first."""
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


def _differences(given: Array, expected: Array, dtype: DTypeName) -> int:
    if DTYPES[dtype].is_integer:
        return int(np.count_nonzero(given != expected))
    if DTYPES[dtype].is_complex:
        return int(np.count_nonzero(_differ(given.real, expected.real) | _differ(given.imag, expected.imag)))
    given, expected = widen(given, dtype), widen(expected, dtype)
    return int(np.count_nonzero(_differ(given, expected)))


def _differ(given: Array, expected: Array) -> Array:
    wrong: Array = (given != expected) & ~(np.isnan(given) & np.isnan(expected))
    return wrong
