"""Matrices as 8-bit floats with block scales, as DeepGEMM quantizes them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from matmul_client import InvalidOperand, per_block_cast_to_fp8, per_token_cast_to_fp8

SHAPES = [(3, 5), (130, 257), (2, 128, 300)]


def largest(x: Any, block: tuple[int, int], at: tuple[int, ...]) -> float:
    """Of the block that a scale's index names."""
    *items, row, column = at
    rows, columns = (slice(i * size, (i + 1) * size) for i, size in zip((row, column), block, strict=True))
    return float(np.abs(x[(*items, rows, columns)]).max())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("block", [(1, 128), (128, 1), (128, 128)])
def test_a_scale_is_the_largest_magnitude_of_its_block_over_448(shape: tuple[int, ...], block: tuple[int, int]) -> None:
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    x[..., 0, 0] = -77.0
    cast = (
        per_block_cast_to_fp8(x) if block == (128, 128) else per_token_cast_to_fp8(x, axis=-1 if block[0] == 1 else -2)
    )
    values, scales = cast
    assert values.dtype == ml_dtypes.float8_e4m3fn and values.shape == shape and scales.dtype == np.float32
    for at in np.ndindex(*scales.shape):
        assert scales[at] == np.float32(largest(x, block, at)) / np.float32(448.0)
    spread = scales.repeat(block[0], axis=-2).repeat(block[1], axis=-1)[..., : shape[-2], : shape[-1]]
    off = np.abs(values.astype(np.float32) * spread - x)
    assert (off <= np.maximum(np.abs(x) * 2.0**-4, spread * 2.0**-9)).all()  # 4 significant bits, or the least step
    assert np.abs(values.astype(np.float32)).max() == 448.0


def test_zeros_16_bit_floats_and_what_cannot_be() -> None:
    values, scales = per_token_cast_to_fp8(np.zeros((2, 200), ml_dtypes.bfloat16))
    assert not values.astype(np.float32).any()
    np.testing.assert_array_equal(scales, np.full((2, 2), np.float32(1e-4) / np.float32(448.0)))
    for large in (np.inf, 1e300):
        with pytest.raises(InvalidOperand, match="infinities, NaN or numbers past float32"):
            per_block_cast_to_fp8(np.array([[large]]))
    with pytest.raises(InvalidOperand, match="complex"):
        per_block_cast_to_fp8(np.array([[1 + 2j]]))
    with pytest.raises(InvalidOperand, match="axis is 0"):
        per_token_cast_to_fp8(np.ones((2, 2)), axis=0)
