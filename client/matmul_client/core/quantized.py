"""Matrices as 8-bit floats (E4M3) with block scales, as DeepSeek-V3 quantizes activations and weights (arXiv
2412.19437, section 3.3.2) and DeepGEMM names it: the value of an element is its stored value times the scale of its
block.

A block's scale is its largest magnitude / 448, the largest that E4M3 has, and no less than 1e-4 / 448.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matmul_client.core.elements import _ml_dtype, to_array
from matmul_client.core.errors import InvalidOperand

if TYPE_CHECKING:
    from matmul_client.core.elements import Array

BLOCK = 128
LARGEST = 448.0
SMALLEST_MAGNITUDE = 1e-4  # of a block, so that scales of zeros are no zeros


def per_token_cast_to_fp8(x: Any, *, axis: int = -1) -> tuple[Array, Array]:
    """Values and scales of a matrix, or a batch of them, one scale for each 128 elements along `axis`: -1, its columns,
    or -2, its rows. `axis` is the one that runs along k. Raises InvalidOperand."""
    if axis not in (-1, -2):
        raise InvalidOperand(f"axis is {axis}; it must be -1, along columns, or -2, along rows.")
    return _cast(x, (1, BLOCK) if axis == -1 else (BLOCK, 1))


def per_block_cast_to_fp8(x: Any) -> tuple[Array, Array]:
    """Values and scales of a matrix, or a batch of them, one scale for each block of 128×128. Raises InvalidOperand."""
    return _cast(x, (BLOCK, BLOCK))


def _cast(x: Any, block: tuple[int, int]) -> tuple[Array, Array]:
    import numpy as np

    given = to_array(x, "the matrix")
    if np.iscomplexobj(given):
        raise InvalidOperand("The matrix is complex, and 8-bit floats are real.")
    with np.errstate(over="ignore"):
        values = given.astype(np.float32)
    if not np.isfinite(values).all():
        raise InvalidOperand(
            "The matrix has infinities, NaN or numbers past float32, which no scale brings into range."
        )
    magnitudes = np.abs(values)
    for axis, size in zip((-2, -1), block, strict=True):
        if magnitudes.shape[axis]:
            magnitudes = np.maximum.reduceat(magnitudes, np.arange(0, magnitudes.shape[axis], size), axis=axis)
    magnitudes = np.maximum(magnitudes, np.float32(SMALLEST_MAGNITUDE))
    factors = np.float32(LARGEST) / magnitudes
    for axis, size in zip((-2, -1), block, strict=True):
        factors = factors.repeat(size, axis=axis)
    values *= factors[..., : values.shape[-2], : values.shape[-1]]
    return values.astype(_ml_dtype("float8_e4m3fn")), magnitudes / np.float32(LARGEST)
