"""A matrix's elements as numbers that numpy computes with, and back."""

from __future__ import annotations

import numpy as np

from jobs.formats import bit_floats
from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.numerics import DTYPES, DTypeName


def widen(elements: Array, dtype: DTypeName) -> Array:
    """Floats of 16 and 8 bits as float32, exactly; other types as they are, not copied."""
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
    """float32 values rounded once to a type; beyond its range they become infinities, as IEEE has it, or else NaN."""
    if bit_floats.held_as_bits(dtype):
        return bit_floats.narrow(values, dtype)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.astype(STORAGE_DTYPES[dtype])


def as_float64(elements: Array, dtype: DTypeName) -> Array:
    """A float64 copy, exact for every element type."""
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return widen(elements, dtype).astype(np.float64)


def as_exact(elements: Array, dtype: DTypeName) -> Array:
    """As `as_float64`, and of complex elements a complex128 copy."""
    return elements.astype(np.complex128) if DTYPES[dtype].is_complex else as_float64(elements, dtype)


def core(matrix: Array, *, transposed: bool) -> Array:
    """The operand as it enters the product, always with a leading batch axis: (batch, rows, columns). Not copied."""
    batched = matrix if matrix.ndim == 3 else matrix[np.newaxis]
    return batched.swapaxes(1, 2) if transposed else batched
