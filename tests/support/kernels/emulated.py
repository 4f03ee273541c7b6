"""`fp32_emulated` in NumPy: digits of float32 numbers, and the products that are made of them.

A line is a row of A or a column of B, and the last axis of an array runs along k. As emulated_layout.cuh has it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from jobs.formats.elements import Array

DIGITS = 4
DEPTH = 64  # steps of k that are multiplied together
LARGEST = 0x7F7F7F7F  # that four balanced digits reach
LARGEST_FLOAT = 0x7F7F7F00  # the float32 below it
# Digits taken, and the first sum of two that is left out.
WAYS = {"six": (3, 3), "seven": (3, 4), "eight": (3, 4), "ten": (4, 4)}
Way = Literal["six", "seven", "eight", "ten"]


def line_exponents(lines: Array) -> Array:
    """The e of each line: q = x · 2^(31 - e) of its largest element is at most LARGEST. 0 for lines of zeros."""
    peaks = np.abs(lines.astype(np.float64)).max(axis=-1, initial=0.0)
    mantissas, exponents = np.frexp(peaks)
    found: Array = np.where(peaks > 0, exponents + (mantissas * 2.0**31 > LARGEST), 0)
    return found


def line_quarters(lines: Array) -> Array:
    """By how many quarters a line's scale is more than its power of two."""
    peaks = np.abs(lines.astype(np.float64)).max(axis=-1, initial=0.0)
    q = np.ldexp(peaks, 31 - line_exponents(lines))
    room = [q * (4 + more) / 4 <= LARGEST_FLOAT for more in (1, 2, 3)]
    found: Array = np.sum(room, axis=0, dtype=np.int64) * (peaks > 0)
    return found


def units(lines: Array) -> Array:
    """What sums of a line are scaled by, but for 2^-15."""
    found: Array = np.ldexp(4.0 / (4 + line_quarters(lines)), line_exponents(lines) - 15)
    return found


def fixed_point(lines: Array) -> Array:
    """q of each element, int64: scaled, rounded to float32, then to integers with halves away from zero. One less where
    three digits would be rounded up from half-way though the third is even."""
    more = 1 + line_quarters(lines)[..., np.newaxis] / 4
    exact = np.ldexp(lines.astype(np.float64), 31 - line_exponents(lines)[..., np.newaxis]) * more
    scaled = exact.astype(np.float32).astype(np.float64)
    rounded: Array = (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(np.int64)
    found: Array = rounded - (rounded % 512 == 128)
    return found


def digits(q: Array) -> Array:
    """Balanced digits to base 256, int8, the highest first on a new first axis."""
    found = []
    for _ in range(DIGITS):
        low = (q + 128) % 256 - 128
        found.append(low.astype(np.int8))
        q = (q - low) // 256
    assert not q.any(), "no fifth digit"
    return np.stack(found[::-1])


def is_accepted(way: Way, i: int, j: int) -> bool:
    """Whether the product of digit i of A and j of B is: of seven, one of the two of the last sum."""
    return i + j < WAYS[way][1] and not (way == "seven" and (i, j) == (1, 2))


def sums_of(of_a: Array, of_b: Array, way: Way) -> Array:
    """Products of digits i and j by i + j, added up over k: int64 (sums, m, n). Of lines' elements, the digits."""
    taken, sums = WAYS[way]
    of_a, of_b = of_a.astype(np.float64), of_b.astype(np.float64)  # exact: below 2^53
    total = np.zeros((sums, of_a.shape[1], of_b.shape[1]))
    for i in range(taken):
        for j in range(taken):
            if is_accepted(way, i, j):
                total[i + j] += of_a[i] @ of_b[j].T
    whole: Array = total.astype(np.int64)
    return whole


def product(a: Array, b: Array, way: Way, parts: int = 1) -> Array:
    """A·B in float32, rounded once; B is given by its columns. In so many parts of k the fourth sum is rounded so many
    times."""
    of_a, of_b = (digits(fixed_point(lines)) for lines in (a, b))
    steps, whole = -(-a.shape[-1] // DEPTH), np.zeros((len(a), len(b)), np.int64)
    for part in range(parts):
        taken = slice(part * steps // parts * DEPTH, (part + 1) * steps // parts * DEPTH)
        sums = sums_of(of_a[..., taken], of_b[..., taken], way)
        if len(sums) == 4:
            sums[2] += (sums[3] + 128) >> 8
        whole += (sums[0] << 16) + (sums[1] << 8) + sums[2]
    factors = units(a)[:, np.newaxis] * units(b)[np.newaxis]
    with np.errstate(over="ignore"):  # an infinity is the right product then
        rounded: Array = (whole.astype(np.float64) * factors).astype(np.float32)
    return rounded


def error_bound(a: Array, b: Array, way: Way) -> Array:
    """What digits may be off by, element for element, before the one rounding to float32.

    In places of 2^(e + e'), the largest that a term can be: the rounding of both operands to float32 as they are
    scaled, to integers and to the digits taken, and what products of digits are left out, at most 256^-(i + j) each;
    and half a place of the sum of 2 for putting together.
    """
    taken, _ = WAYS[way]
    rounded = 2 * (2.0 ** -(8 * taken) + 2.0**-24 + 2.0**-31) * (1 + 2.0**-8)
    dropped = sum(256.0 ** -(i + j) for i in range(taken) for j in range(taken) if not is_accepted(way, i, j))
    exponents = line_exponents(a)[:, np.newaxis] + line_exponents(b)[np.newaxis]
    bound: Array = np.ldexp(a.shape[-1] * (rounded + dropped) + 2.0**-31, exponents)
    return bound
