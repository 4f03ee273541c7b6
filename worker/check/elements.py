"""Converts a matrix's elements to numbers that numpy can compute with, and back."""

from __future__ import annotations

import numpy as np

from jobs.formats import bit_floats
from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.numerics import DTYPES, DTypeName


def widen(elements: Array, dtype: DTypeName) -> Array:
    """Converts 16-bit and 8-bit floats exactly to float32; returns other types unchanged, without a copy."""
    return _widen_half(elements) if dtype == "float16" else bit_floats.widen(elements, dtype)


def _widen_half(elements: Array) -> Array:
    """As `astype(np.float32)`, which takes almost three times as long.

    Exponent and fraction move to their places in a float32, whose exponent counts from another zero: the factor 2¹¹²
    makes up for it, for subnormal numbers too. Infinity and NaN are the exception.
    """
    bits = elements.view(np.uint16).astype(np.uint32)
    sign = bits & np.uint32(0x8000)
    bits ^= sign
    not_finite = bits >= np.uint32(0x7C00)
    bits <<= np.uint32(13)
    values = bits.view(np.float32)
    values *= np.float32(2.0**112)
    bits |= sign << np.uint32(16)
    if not_finite.any():
        values[not_finite] = elements[not_finite].astype(np.float32)
    return values


def narrow(values: Array, dtype: DTypeName) -> Array:
    """Rounds float32 values once to a type; out of range they become infinite, as in IEEE 754, or NaN if the type has
    no infinity.
    """
    if bit_floats.held_as_bits(dtype):
        return bit_floats.narrow(values, dtype)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.astype(STORAGE_DTYPES[dtype])


def as_float64(elements: Array, dtype: DTypeName) -> Array:
    """A float64 copy, exact for every element type."""
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return widen(elements, dtype).astype(np.float64)


def as_exact(elements: Array, dtype: DTypeName) -> Array:
    """As `as_float64`; complex elements become a complex128 copy."""
    return elements.astype(np.complex128) if DTYPES[dtype].is_complex else as_float64(elements, dtype)


def core(matrix: Array, *, transposed: bool) -> Array:
    """A view of the operand as it enters the product, always with a leading batch axis: (batch, rows, columns)."""
    batched = matrix if matrix.ndim == 3 else matrix[np.newaxis]
    return batched.swapaxes(1, 2) if transposed else batched
