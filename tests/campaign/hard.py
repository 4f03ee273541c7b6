"""Operands on which a check may be fooled: lines of zeros or almost zeros, of very different units, near either end of
a type's range, or whose products cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log2

import numpy as np

from jobs.formats.elements import Array
from kernels.model.accuracy import SMALLEST_POSITIVE
from kernels.model.numerics import DTYPES, DTypeName

Pair = tuple[Array, Array]
Hard = Callable[[int, int, int, DTypeName, np.random.Generator], Pair]
SMALLEST_FLOAT8, SMALLEST_NORMAL_FLOAT8 = -9, -6
FRACTION_BITS: dict[DTypeName, int] = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
MOST = 0.5  # of all lines are unlike the others


def _least(dtype: DTypeName) -> int:
    """Exponent of the smallest positive number."""
    return int(log2(SMALLEST_POSITIVE[dtype])) if dtype in SMALLEST_POSITIVE else SMALLEST_FLOAT8


def _min_normal(dtype: DTypeName) -> int:
    return _least(dtype) + FRACTION_BITS[dtype] if dtype in FRACTION_BITS else SMALLEST_NORMAL_FLOAT8


def _most(dtype: DTypeName) -> int:
    """Exponent of the largest number."""
    return int(log2(DTYPES[dtype].largest))


def _normal(m: int, n: int, k: int, rng: np.random.Generator) -> Pair:
    return rng.standard_normal((m, k)), rng.standard_normal((k, n))


def _some(count: int, rng: np.random.Generator, most: int | None = None) -> Array:
    """Of so many lines, from one to `most`, usually few."""
    most = max(1, int(MOST * count)) if most is None else min(most, count)
    chosen: Array = rng.choice(count, round(float(np.exp(rng.uniform(0.0, np.log(most))))), replace=False)
    return chosen


def _zeros(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """Columns of B, rows of A and steps of k are zero; what is left of either may be small."""
    a, b = _normal(m, n, k, rng)
    room = -_min_normal(dtype) // 3
    a, b = (np.ldexp(each, -int(rng.integers(room + 1))) for each in (a, b))
    if rng.random() < 0.8:
        b[:, _some(n, rng)] = 0.0
    if rng.random() < 0.4:
        a[_some(m, rng)] = 0.0
    if rng.random() < 0.4:
        steps = _some(k, rng)
        (a.T if rng.random() < 0.5 else b)[steps] = 0.0
    return a, b


def _units(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """Each row of A and column of B has a power of two of its own, from the smallest number to near the largest;
    products of most are in range."""
    a, b = _normal(m, n, k, rng)
    low, high = _least(dtype), _most(dtype) // 2 - int(log2(k)) // 2 - 2
    of_rows, of_columns = (rng.integers(low, max(low + 1, high), size) for size in (m, n))
    return np.ldexp(a, of_rows[:, np.newaxis]), np.ldexp(b, of_columns)


def _almost_zero(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """One to three columns of B are around the smallest normal number, or below, or not so far; sometimes rows of A
    are small as well."""
    a, b = _normal(m, n, k, rng)
    columns = _some(n, rng, 3)
    low, lowest_normal = _least(dtype), _min_normal(dtype)
    ranges = (low, lowest_normal), (lowest_normal - 4, lowest_normal + 4), (lowest_normal, lowest_normal // 2)
    for column in columns:
        b[:, column] = np.ldexp(b[:, column], int(rng.integers(*ranges[rng.integers(len(ranges))], endpoint=True)))
        if rng.random() < 0.3:  # a single element of it is not zero
            b[np.arange(k) != rng.integers(k), column] = 0.0
    if rng.random() < 0.3:
        rows = _some(m, rng)
        a[rows] = np.ldexp(a[rows], rng.integers(lowest_normal // 2, 0, (len(rows), 1), endpoint=True))
    return a, b


def _underflow(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """Rows of C are around the smallest normal number of the product's type, or columns, some or all of them."""
    a, b = _normal(m, n, k, rng)
    product = DTYPES[dtype].product
    exponent = int(rng.integers(_least(product), _min_normal(product) + 12, endpoint=True))
    exponent = max(exponent, 2 * _least(dtype))  # of the product of both
    of_a = int(rng.integers(max(exponent - 2, _least(dtype)), 1, endpoint=True)) if exponent < 0 else 0
    of_a = min(0, max(of_a, _least(dtype)))
    of_b = max(exponent - of_a, _least(dtype))
    rows = np.arange(m) if rng.random() < 0.5 else _some(m, rng)
    a[rows] = np.ldexp(a[rows], of_a)
    columns = np.arange(n) if rng.random() < 0.5 else _some(n, rng)
    b[:, columns] = np.ldexp(b[:, columns], of_b)
    return a, b


def _cancelling(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """The second half of k cancels the first to the last bit, in all columns or in some; a last step is left."""
    a, b = _normal(m, n, k, rng)
    half = k // 2
    columns = np.arange(n) if rng.random() < 0.5 else _some(n, rng)
    a[:, half : 2 * half] = a[:, :half]
    b[half : 2 * half, columns] = -b[:half, columns]
    if rng.random() < 0.5:
        b[2 * half :] = np.ldexp(b[2 * half :], -int(rng.integers(-_min_normal(dtype) // 2)))
    return a, b


def _small_integers(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """Exact products, many of them equal or zero."""
    most = int(rng.integers(1, 9))
    a, b = (rng.integers(-most, most, shape, endpoint=True) for shape in ((m, k), (k, n)))
    return a.astype(np.float64), b.astype(np.float64)


def _near_largest(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """Rows of A and columns of B whose products come close to the largest number, beside others that are small."""
    a, b = _normal(m, n, k, rng)
    own = _most(dtype) - 3
    most = max(0, min(_most(DTYPES[dtype].product) - int(log2(k) / 2) - 3, 2 * own))
    of_a = int(rng.integers(max(0, most - own), min(most, own), endpoint=True))
    rows, columns = _some(m, rng), _some(n, rng)
    a[rows] = np.ldexp(a[rows], of_a)
    b[:, columns] = np.ldexp(b[:, columns], most - of_a)
    return a, b


def _lone(m: int, n: int, k: int, dtype: DTypeName, rng: np.random.Generator) -> Pair:
    """A large element in a row of A, another in a column of B, which meet zeros or numbers as small as they are
    large."""
    a, b = _normal(m, n, k, rng)
    step, other = rng.integers(k, size=2)
    exponent = int(rng.integers(1, max(2, _most(dtype) // 2)))
    scale = 0.0 if rng.random() < 0.5 else np.ldexp(1.0, -exponent)
    a[rng.integers(m), step] = np.ldexp(1.0, exponent)
    b[step] *= scale
    b[other, rng.integers(n)] = np.ldexp(1.0, exponent)
    a[:, other] *= scale
    return a, b


HARD: Mapping[str, Hard] = {
    "lines of zeros beside small ones": _zeros,
    "each line in its own unit": _units,
    "columns that are almost zero": _almost_zero,
    "near underflow": _underflow,
    "halves that cancel to the last bit": _cancelling,
    "small integers": _small_integers,
    "lines near the largest": _near_largest,
    "large elements that meet small ones": _lone,
}
