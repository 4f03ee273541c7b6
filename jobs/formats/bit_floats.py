"""Converts between numbers and the bit patterns of float types that numpy lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jobs.formats import bfloat16, float8
from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName

_WIDEN: Mapping[DTypeName, Callable[[Array], Array]] = {"bfloat16": bfloat16.widen, "float8_e4m3": float8.widen}
_NARROW: Mapping[DTypeName, Callable[[Array], Array]] = {"bfloat16": bfloat16.narrow, "float8_e4m3": float8.narrow}


def held_as_bits(dtype: DTypeName) -> bool:
    return dtype in _WIDEN


def widen(elements: Array, dtype: DTypeName) -> Array:
    """Stored elements as numbers: bit patterns become float32, exactly; other types are returned unchanged, without a
    copy.
    """
    return _WIDEN[dtype](elements) if held_as_bits(dtype) else elements


def narrow(values: Array, dtype: DTypeName) -> Array:
    """Bit patterns of the numbers nearest to float32 values; only for a `dtype` that is held as bits."""
    return _NARROW[dtype](values)
