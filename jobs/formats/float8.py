"""float8_e4m3 as bit patterns, uint8 since numpy has no such type: a sign, 4 bits of exponent, 3 of fraction.

It has no infinities. A pattern of all ones, apart from the sign, is NaN; the largest number is 448. (Format: E4M3 of
the OCP 8-bit Floating Point Specification, revision 1.0.)
"""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array

BLOCK_ELEMENTS = 1 << 16  # narrowed at a time, so that intermediate results stay in the cache
MIN_NORMAL = np.float32(2.0**-6)
SUBNORMALS = np.float32(2.0**9)  # of them to 1, the least being 2^-9
NAN = np.uint32(0x7F)
_CUT = np.uint32(20)  # bits of a float32's fraction that this type lacks
_BIAS = np.uint32((127 - 7) << 3)  # between the exponents' zeros


def _all_values() -> Array:
    patterns = np.arange(128)
    exponents, fractions = patterns >> 3, patterns & 7
    normal = np.ldexp(1.0 + fractions / 8, exponents - 7)
    values = np.where(exponents > 0, normal, fractions / 8 * MIN_NORMAL)
    values[NAN] = np.nan
    return np.concatenate([values, -values]).astype(np.float32)


VALUES = _all_values()  # by pattern


def widen(bits: Array) -> Array:
    """The float32 values of bit patterns (uint8, any shape). Exact."""
    return np.take(VALUES, bits)


def narrow(values: Array) -> Array:
    """The nearest bit patterns (uint8) of float32 values, any shape; ties go to the even one.

    Infinities, and values that round to more than 448, become NaN.
    """
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    bits = np.empty(flat.size, np.uint8)
    for start in range(0, flat.size, BLOCK_ELEMENTS):
        _narrow_block(flat[start : start + BLOCK_ELEMENTS], bits[start : start + BLOCK_ELEMENTS])
    return bits.reshape(values.shape)


def _narrow_block(values: Array, out: Array) -> None:
    """Rounds normal numbers half to even: adds just under half of the last kept place (exactly half if that place is
    odd), then truncates.
    """
    wide = values.view(np.uint32)
    magnitudes = wide & np.uint32(0x7FFFFFFF)
    odd = (magnitudes >> _CUT) & np.uint32(1)
    rounded = (magnitudes + odd + np.uint32((1 << 19) - 1)) >> _CUT
    small = magnitudes.view(np.float32) < MIN_NORMAL
    rounded = np.where(small, _BIAS, rounded) - _BIAS
    rounded[small] = np.rint(magnitudes.view(np.float32)[small] * SUBNORMALS).astype(np.uint32)
    out[:] = np.minimum(rounded, NAN) | (wide >> np.uint32(24) & np.uint32(0x80))
