"""What is known of an operand before its elements are read."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.model.numerics import DTypeName


@dataclass(frozen=True, slots=True)
class OperandType:
    """The type, shape and kind of an operand."""

    dtype: DTypeName
    shape: tuple[int, ...]
    adopts_dtype: bool = False  # made from a seed without a type: `dtype` is only a default
