"""Element types of numpy's arrays."""

from __future__ import annotations

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.numerics import DTypeName


def dtype_name(array: Array) -> DTypeName:
    """The first element type that is stored as the array's elements are."""
    return next(name for name, dtype in STORAGE_DTYPES.items() if dtype == array.dtype)
