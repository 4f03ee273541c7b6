"""A kernel that multiplies in another's place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.numerics import Problem

if TYPE_CHECKING:
    from kernels.kernel import CudaKernel


@dataclass(frozen=True, slots=True)
class Fallback:
    """Where `always` holds, `kernel` multiplies at once. Elsewhere the passes decide on the device: if the first word
    of the workspace is not 0, they and the kernel leave C alone, and the launch of `kernel` behind them takes effect.
    The host launches both and never learns which it was."""

    kernel: CudaKernel  # its source has the argument of gate.cuh
    always: Callable[[Problem], bool]
