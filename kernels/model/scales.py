"""Block scales of 8-bit operands: a float32 scale for each 128 steps of k of a line, or of 128 lines.

A line is a row of A or a column of B. What an element stands for is its own value times its block's scale:

    C = Σ over blocks t of k:  scale_a[i, t]·scale_b[t, j]·Σ over the 128 steps of t of aᵢₖ·bₖⱼ

The sizes are those of DeepSeek-V3's technical report (arXiv 2412.19437, section 3.3.2) and of DeepGEMM: 1×128 for
activations, 128×128 for weights. A scale lies where its block lies in the operand as it is stored: its matrix has the
operand's shape, with one axis divided by 128 and rounded up, or both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kernels.model.numerics import DTypeName, Problem

SCALE_DEPTH = 128  # steps of k that share a scale
SCALE_WIDTHS = (1, SCALE_DEPTH)  # lines that do
SCALED_DTYPE: DTypeName = "float8_e4m3"  # of the operands
SCALE_DTYPE: DTypeName = "float32"
# Magnitudes of scales, beside 0. The product of two is a normal float32, so neither is lost in the other.
SMALLEST_SCALE, LARGEST_SCALE = 2.0**-60, 2.0**60

Block = tuple[int, int]  # rows and columns that share a scale, as the operand is stored


def block_of(operand: str, width: int, *, transposed: bool) -> Block:
    """The block of operand "a" or "b" if each scale covers `width` lines."""
    runs_along_columns = (operand == "a") != transposed
    return (width, SCALE_DEPTH) if runs_along_columns else (SCALE_DEPTH, width)


def scale_shape(shape: tuple[int, ...], block: Block) -> tuple[int, ...]:
    """The shape of the scales of an operand with this stored shape."""
    rows, columns = (-(-size // of) for size, of in zip(shape[-2:], block, strict=True))
    return (*shape[:-2], rows, columns)


def width_of(operand: str, shape: tuple[int, ...], scales: tuple[int, ...], *, transposed: bool) -> int | None:
    """How many lines of an operand share a scale where its scales have that shape; None where they do not fit."""
    for width in SCALE_WIDTHS:
        if scale_shape(shape, block_of(operand, width, transposed=transposed)) == scales:
            return width
    return None


def with_scales(problem: Problem, b: tuple[int, ...], scales: tuple[int, ...]) -> Problem:
    """The problem with scales for a B of that stored shape. The scales fit B; those of A make no difference to
    kernels."""
    width = width_of("b", b, scales, transposed=problem.transpose_b)
    assert width is not None, "shapes were compared"
    return replace(problem, scale_columns=width)


def any_config(_problem: Problem, _config: Mapping[str, int]) -> None:
    """For kernels that take scales in any config."""
