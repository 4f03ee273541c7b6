"""One element type for the operands of a product.

Operands of different types are promoted as numpy promotes them. Integers of a type that the service does not have
(numpy's own is int64) are sent as int32 or float64, whichever holds all sums of the product exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from matmul_client.core.elements import is_foreign
from matmul_client.core.errors import InvalidOperand

if TYPE_CHECKING:
    import numpy as np

    from matmul_client.core.elements import Array

INT32_LIMIT = 1 << 31
EXACT_LIMITS: Mapping[str, int] = {
    "bfloat16": 1 << 8,
    "float16": 1 << 11,
    "float32": 1 << 24,
    "float64": 1 << 53,
    "complex64": 1 << 24,
    "complex128": 1 << 53,
}


def one_type(arrays: Mapping[str, Array], *, is_plain: bool) -> dict[str, Array]:
    """The same values, all of one element type. `is_plain`: the product has no other operands or factors. Raises
    InvalidOperand if an integer would change."""
    import numpy as np

    if len({array.dtype for array in arrays.values()}) < 2 and not any(map(is_foreign, arrays.values())):
        return {**arrays}
    try:
        common: np.dtype[np.generic] = np.result_type(*(array.dtype for array in arrays.values()))
    except TypeError:  # numpy has no such type, as of 8-bit and other floats; the service says what is wrong
        return {**arrays}
    if any(map(is_foreign, arrays.values())) and all(array.dtype.kind in "biu" for array in arrays.values()):
        largest = _largest_sum(arrays) if is_plain else INT32_LIMIT
        common = np.dtype(np.int32 if largest < INT32_LIMIT else np.float64)
        if is_plain and largest > EXACT_LIMITS["float64"]:
            raise InvalidOperand(
                "Sums of these integers may not fit float64; convert the operands: to float64 to have sums rounded, "
                "to int32 for sums modulo 2³²."
            )
    return {name: converted(array, common, name) for name, array in arrays.items()}


def converted(array: Array, dtype: np.dtype[np.generic], name: str) -> Array:
    """The array converted to another type. Raises InvalidOperand if that type cannot represent one of its integers."""
    if array.dtype == dtype:
        return array
    limit = EXACT_LIMITS.get(dtype.name)
    if limit is not None and array.dtype.kind in "iu" and _magnitude(array) > limit:
        raise InvalidOperand(f"{name} has integers that {dtype.name} does not hold exactly; convert it yourself.")
    return array.astype(dtype)


def _largest_sum(arrays: Mapping[str, Array]) -> int:
    """No sum of products is larger, in whatever order it is made."""
    longest = max(max(array.shape[-2:], default=1) for array in arrays.values())
    bound = max(longest, 1)
    for array in arrays.values():
        bound *= max(_magnitude(array), 1)
    return bound


def _magnitude(array: Array) -> int:
    return max(int(array.max()), -int(array.min())) if array.size else 0
