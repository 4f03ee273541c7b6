"""Operands cut into slices, whose products float64 arithmetic adds up without error.

A line is a row of A or a column of B, and 2^e its exponent: the least power of two above its magnitudes. Slice i of an
element x holds bits i·β to (i + 1)·β below 2^e, as a whole number with the sign of x: x = Σᵢ sliceᵢ·2^(e − (i + 1)·β).
A product of slices is below 2^(2·β), so a sum of DEPTH of them is a whole number of at most 2^53, and so is each of its
partial sums: float64 has them all, whatever the order of summation (K. Ozaki and others, "Error-free transformations of
matrix multiplication by using fast routines of matrix multiplication", Numer. Algorithms 59, 2012).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jobs.formats.elements import Array
from worker.cpu.exact.rounding import SLICE_BITS

DEPTH = 1 << (53 - 2 * SLICE_BITS)  # steps of k that are summed in float64


def exponents_of(lines: Array) -> Array:
    """The exponents of lines, given as an array (lines, steps)."""
    peaks = np.maximum(lines.max(axis=1, initial=0.0), -lines.min(axis=1, initial=0.0))
    exponents: Array = np.frexp(peaks)[1].astype(np.int64)
    return exponents


class Slices:
    """The slices of lines (lines, steps) of finite float64 numbers, with at most DEPTH steps."""

    def __init__(self, lines: Array, exponents: Array, limit: int) -> None:
        """`limit`: at most so many are cut. What is left then is only counted."""
        self.parts: list[Array] = []
        self.counts = np.zeros(len(lines), np.int64)  # slices that each line has; `limit` + 1 where more are left
        for part in self._cut(lines.copy(), exponents[:, np.newaxis], limit):
            self.parts.append(part)

    def _cut(self, rest: Array, exponents: Array, limit: int) -> Iterator[Array]:
        for number in range(1, limit + 2):
            has_more = rest.any(axis=1)
            self.counts[has_more] = number
            if number > limit or not has_more.any():
                return
            part = np.trunc(np.ldexp(rest, number * SLICE_BITS - exponents))
            rest -= np.ldexp(part, exponents - number * SLICE_BITS)
            yield part
