"""A kernel that multiplies in another's place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kernels.model.numerics import Problem

KernelT = TypeVar("KernelT")  # CudaKernel, whose entry holds this


@dataclass(frozen=True, slots=True)
class Fallback(Generic[KernelT]):
    """Where `always` holds, `kernel` multiplies at once. Elsewhere the passes decide on the device: if the first word
    of the workspace is not 0, they and the kernel leave C alone, and the launch of `kernel` behind them takes effect.
    The host launches both and never learns which it was."""

    kernel: KernelT  # its source has the argument of gate.cuh
    always: Callable[[Problem], bool]
    worth: float  # times as fast as all others a kernel must be, on operands that it takes, for `auto` to take it
    config: Mapping[str, int] = field(default_factory=dict)  # what is asked for of it
