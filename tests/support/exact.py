"""Products in exact arithmetic, by fractions: what bounds and rounded products are held against."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from operator import mul

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName

FORMATS: dict[DTypeName, tuple[int, int, int]] = {  # bits, exponent of the smallest number, and past the largest
    "float16": (11, -24, 16),
    "bfloat16": (8, -133, 128),
    "float32": (24, -149, 128),
    "float64": (53, -1074, 1024),
}


def exact(a: Array, b: Array) -> list[list[Fraction]]:
    """Of finite floats (m, k) and (k, n)."""
    (rows, bits_a), (columns, bits_b) = in_integers(a), in_integers(b.T)
    unit = 1 << bits_a + bits_b
    return [[Fraction(sum(map(mul, row, column)), unit) for column in columns] for row in rows]


def in_integers(matrix: Array) -> tuple[list[list[int]], int]:
    """Times a power of two, and its exponent. Integers are added and multiplied much faster than fractions are."""
    ratios = [[float(x).as_integer_ratio() for x in row] for row in matrix]
    unit = max((denominator for row in ratios for _, denominator in row), default=1)  # each is a power of two
    found = [[numerator * (unit // denominator) for numerator, denominator in row] for row in ratios]
    return found, unit.bit_length() - 1


def absolute_sums(a: Array, b: Array) -> list[list[Fraction]]:
    return exact(np.abs(a), np.abs(b))


def rounded(value: Fraction, dtype: DTypeName) -> float:
    """To the nearest, halves to even. (Python rounds fractions so.)"""
    bits, smallest, past_largest = FORMATS[dtype]
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    place = Fraction(2) ** max(exponent - bits + 1, smallest)
    near = round(size / place) * place
    magnitude = float("inf") if near >= Fraction(2) ** past_largest else float(near)
    return magnitude if value > 0 else -magnitude


def correctly_rounded(a: Array, b: Array, dtype: DTypeName) -> Array:
    """As float64 where numpy has no such type."""
    values = np.array([[rounded(value, dtype) for value in row] for row in exact(a, b)])
    return values if dtype == "bfloat16" else values.astype(dtype)


def worst_ratio(c: Array, a: Array, b: Array, limits: list[list[Fraction]], tiny: float) -> float:
    """The largest error over its limit, with `tiny` taken off the error first. An infinite element is right where the
    exact one, rounded to C's type, is infinite too."""
    true = exact(a, b)
    dtype: DTypeName = "float64" if c.dtype == np.float64 else "float32"
    worst = 0.0
    for i, j in product(range(len(a)), range(b.shape[1])):
        if not np.isfinite(c[i, j]):
            worst = max(worst, 0.0 if rounded(true[i][j], dtype) == float(c[i, j]) else float("inf"))
            continue
        error = max(abs(Fraction(float(c[i, j])) - true[i][j]) - Fraction(tiny), Fraction(0))
        worst = max(worst, float(error / limits[i][j]) if limits[i][j] else float("inf") if error else 0.0)
    return worst


def scaled(factor: float, sizes: list[list[Fraction]]) -> list[list[Fraction]]:
    return [[Fraction(factor) * size for size in row] for row in sizes]
