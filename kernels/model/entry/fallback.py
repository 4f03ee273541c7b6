"""A kernel that replaces another one when it cannot multiply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kernels.model.numerics import Problem

KernelT = TypeVar("KernelT")  # CudaKernel, whose entry holds this

# Of products, on whose operands a kernel that may fall back is slow. It should not be slower on average of all.
UNUSUAL = 0.25


@dataclass(frozen=True, slots=True)
class Fallback(Generic[KernelT]):
    """If `always` holds, `kernel` multiplies from the start. Otherwise the passes decide on the device: if the first
    word of the workspace is not 0, they and the main kernel leave C unchanged, and the launch of `kernel` after them
    takes effect. The host launches both and does not learn which one multiplied.
    """

    kernel: KernelT  # its source has the argument of gate.cuh
    always: Callable[[Problem], bool]
    worth: Callable[
        [Problem], float
    ]  # how many times as fast as all others the main kernel must be, at the least, for `auto` to choose it
    config: Mapping[str, int] = field(default_factory=dict)  # its config
    # Microseconds that the passes and all launches in vain take where `kernel` multiplies; None: `worth` counts alone.
    lost_us: Callable[[Problem], float] | None = None
