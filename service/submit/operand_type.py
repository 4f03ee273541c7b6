"""What is known of an operand before its elements are read."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.model.numerics import DTypeName


@dataclass(frozen=True, slots=True)
class OperandType:
    """What an operand is, apart from its elements."""

    dtype: DTypeName
    shape: tuple[int, ...]
    adopts_dtype: bool = False  # made from a seed: `dtype` was its default, no claim about it
