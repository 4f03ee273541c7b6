"""bfloat16 as bit patterns, the upper half of a float32's. numpy has no such type, so matrices hold uint16 instead."""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array

BLOCK_ELEMENTS = 1 << 16  # narrowed at a time, so that intermediate results stay in the cache
_QUIET = np.uint16(0x0040)  # the bit that makes a NaN a quiet one


def widen(bits: Array) -> Array:
    """The float32 values of bfloat16 bit patterns (uint16, any shape). Exact."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow(values: Array) -> Array:
    """The nearest bfloat16 bit patterns (uint16) of float32 values, any shape; ties go to the even one.

    NaN stays NaN; values that are too large become infinite.
    """
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    bits = np.empty(flat.size, np.uint16)
    for start in range(0, flat.size, BLOCK_ELEMENTS):
        _narrow_block(flat[start : start + BLOCK_ELEMENTS], bits[start : start + BLOCK_ELEMENTS])
    return bits.reshape(values.shape)


def _narrow_block(values: Array, out: Array) -> None:
    """Rounds half to even: adds just under half of the last kept place (exactly half if that place is odd), then
    truncates.
    """
    wide = values.view(np.uint32)
    upper = wide >> np.uint32(16)
    rounded = (wide + ((upper & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(16)
    out[:] = rounded
    nan = np.isnan(values)
    if nan.any():  # rounding may carry a NaN over into infinity or to the other sign
        out[nan] = upper[nan].astype(np.uint16) | _QUIET
