"""Operands of types that differ, and integers of types that the service does not have."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from matmul_client import InvalidOperand
from matmul_client.core.numbers import one_type


def types(*values: Any, is_plain: bool = True) -> set[str]:
    return {array.dtype.name for array in arrays(*values, is_plain=is_plain).values()}


def arrays(*values: Any, is_plain: bool = True) -> dict[str, Any]:
    return one_type(dict(zip("abc", map(np.asarray, values), strict=False)), is_plain=is_plain)


def full(value: int, dtype: Any, k: int = 4) -> np.ndarray[Any, Any]:
    return np.full((k, k), value, dtype)


def test_what_the_service_has_is_left_alone() -> None:
    for dtype in (np.float16, np.float32, np.float64, np.int8, np.int32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        a = np.ones((2, 2), dtype)
        assert arrays(a, a)["a"] is a


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int16, np.uint16, np.uint32, np.int64, np.uint64])
def test_integers_that_fit_are_int32(dtype: Any) -> None:
    assert types(full(1, dtype), full(1, dtype)) == {"int32"}
    assert types(full(1, dtype), full(1, np.int8)) == {"int32"}


def test_sums_decide_between_int32_and_float64() -> None:
    at_most = (1 << 31) // 4 - 1  # four of them are still below 2³¹
    assert types(full(at_most, np.int64), full(1, np.int64)) == {"int32"}
    assert types(full(at_most + 1, np.int64), full(1, np.int64)) == {"float64"}
    assert types(full(-at_most - 2, np.int64), full(1, np.int64)) == {"float64"}
    assert types(full(1 << 51, np.int64), full(1, np.int64)) == {"float64"}
    with pytest.raises(InvalidOperand, match="may not fit float64"):
        arrays(full((1 << 51) + 1, np.int64), full(1, np.int64))
    with pytest.raises(InvalidOperand, match="may not fit float64"):
        arrays(full(-(1 << 63), np.int64), full(1, np.int64))


def test_with_factors_or_stored_operands_they_are_float64() -> None:
    """The other terms are unknown."""
    assert types(full(1, np.int64), is_plain=False) == {"float64"}
    with pytest.raises(InvalidOperand, match="float64 does not hold exactly"):
        arrays(full((1 << 53) + 1, np.int64), is_plain=False)


def test_types_that_differ_become_numpys() -> None:
    assert types(full(1, np.float32), full(1, np.float64)) == {"float64"}
    assert types(full(1, np.float16), full(1, np.float32)) == {"float32"}
    assert types(full(1, ml_dtypes.bfloat16), full(1, np.float32)) == {"float32"}
    assert types(full(1, np.int8), full(1, np.int32)) == {"int32"}
    assert types(full(1, np.int64), full(1, np.float32)) == {"float64"}
    assert types(full(1, np.int8), full(1, np.float16)) == {"float16"}
    with pytest.raises(InvalidOperand, match="b has integers that float64 does not hold"):
        arrays(full(1, np.float32), full((1 << 53) + 1, np.int64))


def test_types_that_nothing_joins_are_left_to_the_service() -> None:
    assert types(full(1, ml_dtypes.float8_e4m3fn), full(1, ml_dtypes.float8_e5m2)) == {"float8_e4m3fn", "float8_e5m2"}


def test_no_value_is_changed() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.integers(-(1 << 40), 1 << 40, (3, 5)), rng.integers(-50, 50, (5, 2), np.int16)
    sent = arrays(a, b)
    assert np.array_equal((sent["a"] @ sent["b"]).astype(np.int64), a @ b.astype(np.int64))
