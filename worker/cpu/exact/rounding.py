"""Exact sums, held as limbs, rounded once to a type: to the nearest, halves to even, as IEEE 754 has it.

A sum is Σₜ limbs[t]·2^(exponent − SLICE_BITS·t). The first limb has a sign and is as large as it needs to be; the
others are digits from 0 to 2^SLICE_BITS − 1 once carries are taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName

SLICE_BITS = 21  # of a slice of an operand, and of a limb
WORD_BITS = 62  # that are read of a sum; whether anything is below them is all else that counts
HALF_WORD = 32


@dataclass(frozen=True, slots=True)
class Format:
    """A binary float: significant bits, and the exponent of its smallest number."""

    bits: int
    smallest: int


FORMATS: dict[DTypeName, Format] = {
    "float16": Format(11, -24),
    "bfloat16": Format(8, -133),
    "float32": Format(24, -149),
    "float64": Format(53, -1074),
}


def carry(limbs: Array) -> None:
    """Makes digits of all limbs but the first, in place."""
    for lower in range(len(limbs) - 1, 0, -1):
        limbs[lower - 1] += limbs[lower] >> SLICE_BITS
        limbs[lower] &= (1 << SLICE_BITS) - 1


def rounded(limbs: Array, exponent: Array, to: Format) -> Array:
    """The nearest numbers of a format, as float64. `limbs` (limbs, …) have their carries taken, and are used up; a sum
    of zero is +0."""
    negative = limbs[0] < 0
    np.negative(limbs, out=limbs, where=negative)
    carry(limbs)
    word, lowest, more = _leading_bits(limbs, exponent)
    place = np.maximum(lowest + _bit_length(word) - to.bits, to.smallest)  # the exponent of the last bit that is kept
    magnitude = np.ldexp(_kept(word, more, place - lowest).astype(np.float64), place)
    values: Array = np.where(negative, -magnitude, magnitude)
    return values


def _leading_bits(limbs: Array, exponent: Array) -> tuple[Array, Array, Array]:
    """The first WORD_BITS bits or so of each sum, the exponent of the last of them, and whether others follow."""
    word, lowest = limbs[0].copy(), np.broadcast_to(exponent, limbs.shape[1:]).astype(np.int64)
    more = np.zeros(word.shape, np.bool_)
    for digit in limbs[1:]:
        taken = np.clip(WORD_BITS - _bit_length(word), 0, SLICE_BITS)
        left = SLICE_BITS - taken
        word = (word << taken) | (digit >> left)
        more |= (digit & ((1 << left) - 1)) != 0
        lowest -= taken
    return word, lowest, more


def _kept(word: Array, more: Array, dropped: Array) -> Array:
    """`word` without its last bits, rounded to the nearest, halves to even. `more`: something lies below them."""
    shift = np.clip(dropped, 0, WORD_BITS + 1)
    kept: Array = word >> shift
    rest = word & ((np.int64(1) << shift) - 1)
    half = np.int64(1) << np.maximum(shift - 1, 0)
    up = (shift > 0) & (dropped <= WORD_BITS + 1) & ((rest > half) | ((rest == half) & (more | (kept & 1 != 0))))
    kept += up
    kept <<= np.clip(-dropped, 0, WORD_BITS)
    return kept


def _bit_length(word: Array) -> Array:
    """The number of bits of whole numbers from 0 to 2^63 − 1."""
    high = word >> HALF_WORD
    is_long = high > 0
    bits: Array = np.frexp(np.where(is_long, high, word).astype(np.float64))[1].astype(np.int64)
    bits += HALF_WORD * is_long
    return bits
