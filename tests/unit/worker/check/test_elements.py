"""16-bit floats as float32 and back."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.model.numerics import DTypeName
from worker.check.elements import as_float64, core, narrow, widen

EVERY_HALF = np.arange(1 << 16, dtype=np.uint16)


def test_every_float16_is_widened_exactly() -> None:
    halves = EVERY_HALF.view(np.float16)
    expected = halves.astype(np.float32)
    np.testing.assert_array_equal(widen(halves, "float16").view(np.uint32), expected.view(np.uint32))
    turned = halves.reshape(256, 256).T
    np.testing.assert_array_equal(widen(turned, "float16"), expected.reshape(256, 256).T)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_widened_is_narrowed_to_itself(dtype: DTypeName) -> None:
    bits = EVERY_HALF if dtype == "bfloat16" else EVERY_HALF.view(np.float16)
    back = narrow(widen(bits, dtype), dtype)
    numbers = ~np.isnan(widen(bits, dtype))
    np.testing.assert_array_equal(back[numbers].view(np.uint16), EVERY_HALF[numbers])
    assert np.isnan(widen(back[~numbers], dtype)).all()


def test_int32_is_exact_in_float64() -> None:
    values = np.array([[-(2**31), 2**31 - 1]], np.int32)
    assert as_float64(values, "int32").tolist() == [[-(2.0**31), 2.0**31 - 1]]


def test_operands_get_a_batch_axis_and_are_turned_without_a_copy() -> None:
    matrix = np.arange(6).reshape(2, 3)
    assert core(matrix, transposed=False).shape == (1, 2, 3)
    turned = core(matrix, transposed=True)
    assert turned.shape == (1, 3, 2) and np.shares_memory(turned, matrix)
