"""The product that a request asks for, A·B, as a Problem."""

from __future__ import annotations

from functools import lru_cache

from jobs.requests.operands import OperandRef, are_transposes
from kernels.model.groups import with_groups
from kernels.model.numerics import OPERAND_FLAGS, DTypeName, Problem
from kernels.model.outputs import multiplied_as
from kernels.model.scales import with_scales


def problem_of(
    a: OperandRef,
    b: OperandRef,
    flags: tuple[bool, ...],
    output: DTypeName | None,
    scale_b: OperandRef | None,
    group_sizes: tuple[int, ...] | None,
    *,
    is_all: bool,
) -> Problem:
    """`flags`: as OPERAND_FLAGS names them. `is_all`: A·B itself is delivered."""
    plain = a.shape, b.shape, multiplied_as(a.dtype, output), flags
    if scale_b is not None:
        return with_scales(_plain_problem(*plain), b.shape, scale_b.shape)
    if group_sizes is not None:
        return with_groups(_plain_problem(*plain), group_sizes)
    return _plain_problem(*plain, is_all and are_transposes(a, b, dict(zip(OPERAND_FLAGS, flags, strict=True))))


@lru_cache(maxsize=4096)  # most requests have the shapes of an earlier one
def _plain_problem(
    a: tuple[int, ...], b: tuple[int, ...], dtype: DTypeName, flags: tuple[bool, ...], symmetric: bool = False
) -> Problem:
    return Problem.of_shapes(a, b, dtype, **dict(zip(OPERAND_FLAGS, flags, strict=True)), symmetric=symmetric)
