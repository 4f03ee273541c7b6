"""Kernels that a worker found, at its start, that it cannot run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernels.model.numerics import DTypeName


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A kernel for operands of one type. The rest of what the worker has runs."""

    kernel: str
    dtype: DTypeName
    why: str  # as a sentence


def left_out_because(left_out: Sequence[LeftOut], kernel: str, dtypes: Iterable[DTypeName]) -> str | None:
    """The first reason, where it is left out for all of these; None where it runs for one."""
    if not left_out:
        return None
    reasons = {each.dtype: each.why for each in left_out if each.kernel == kernel}
    found = [reasons.get(dtype) for dtype in dtypes]
    return found[0] if found and None not in found else None
