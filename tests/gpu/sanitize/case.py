"""One launch of the sweep under compute-sanitizer, as it is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.model.entry.config import TileConfig
from kernels.model.fused import FusedEpilogue
from kernels.model.kernel import CudaKernel
from kernels.model.launch_plan import LaunchPlan
from kernels.model.numerics import Problem

NORMAL, NOT_FINITE = 0x3C, 0xFF  # every byte of the operands: an ordinary number in each type, and NaN in the floats


@dataclass(frozen=True, slots=True)
class Swept:
    """A launch, of operands whose bytes are all `fill`."""

    kernel: CudaKernel
    config: TileConfig
    problem: Problem
    fill: int = NORMAL
    fused: FusedEpilogue | None = None

    @property
    def plan(self) -> LaunchPlan:
        return self.kernel.plan(self.problem, self.config, self.fused)
