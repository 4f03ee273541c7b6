"""The layout of a matrix's elements in memory and in the stores: little-endian, row-major (C order).

bfloat16 and float8_e4m3 are held as bit patterns, uint16 and uint8, because numpy has no such types. A complex number
is its real part and then its imaginary part.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from kernels.model.numerics import DTYPES, DTypeName

Array = np.ndarray[Any, np.dtype[Any]]


STORAGE_DTYPES: dict[DTypeName, np.dtype[Any]] = {
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("<u2"),
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
    "int8": np.dtype("i1"),
    "int32": np.dtype("<i4"),
    "float8_e4m3": np.dtype("u1"),
    "complex64": np.dtype("<c8"),
    "complex128": np.dtype("<c16"),
}


def shape_text(shape: tuple[int, ...]) -> str:
    """The shape as text, as in `3×4`."""
    return "×".join(map(str, shape))


@lru_cache(maxsize=1024)  # a request asks some twenty times
def matrix_bytes(dtype: DTypeName, shape: tuple[int, ...]) -> int:
    """Size of the elements, in Python's unbounded integers."""
    return prod(shape) * DTYPES[dtype].itemsize
