"""Plans products that a library multiplies as a whole in host memory, and that are then checked on the devices in
tiles: the tiling, and the estimated time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import Problem
from kernels.tiles.choice import too_deep
from kernels.tiles.estimate import Estimate, Speeds, best_plan, estimate
from kernels.tiles.plan import TileBytes, TilePlan
from worker.cuda.from_host.parts import Parts
from worker.device.runner import DoesNotFit
from worker.device.tiles import Tiling, described

CHECKED_HERE_BYTES = 16 << 20  # of matrices: less than that is checked by this process, without a device


@dataclass(frozen=True, slots=True)
class LibraryTiler:
    """Products by a library on several GPUs, each of which gives a product a limited number of bytes."""

    kernel: HostLibraryKernel
    devices: int
    device_bytes: int
    speeds: Speeds
    tile_bytes: Callable[[Problem], TileBytes]

    def tiling(self, problem: Problem) -> Tiling | None:
        """The tiling; None for a small product. Raises DoesNotFit."""
        self._admit(problem)
        if problem.operand_bytes + problem.product_bytes < CHECKED_HERE_BYTES:
            return None
        checks = replace(self.speeds, flops=inf)
        room = {"device_bytes": self.device_bytes, "devices": self.devices}
        plan = best_plan(problem, checks, tile_bytes=self.tile_bytes, **room)
        if plan is None:
            raise DoesNotFit(too_deep(problem, self.device_bytes))
        where = "on one GPU" if self.devices == 1 else f"on {self.devices} GPUs"
        in_tiles = described(plan, self.estimate(plan), where)
        return replace(in_tiles, why=f"in one call {where}, then checked {in_tiles.why}")

    def _admit(self, problem: Problem) -> None:
        if self.kernel.copies:
            return
        one = replace(problem, batch=1, a_batched=False, b_batched=False)
        if (need := Parts(one, self.devices).device_bytes) > self.device_bytes:
            raise DoesNotFit(
                f"{self.kernel.name} needs {need} bytes on each of {self.devices} GPUs, for parts of the matrices, "
                f"all of A and 100 MiB, and a product may take {self.device_bytes}; take `auto`, which goes in tiles."
            )

    def library_s(self, problem: Problem) -> float:
        """The seconds until the product is in the host's memory."""
        copied_s = (problem.operand_bytes + problem.product_bytes) / self.speeds.copied_bytes / self.devices
        computed_s = problem.flops / self.speeds.flops / self.devices
        return max(copied_s, computed_s) if self.kernel.copies else copied_s + computed_s

    def estimate(self, plan: TilePlan) -> Estimate:
        """The library's call, and then the tiles: with those of the product on their way to the device, too."""
        checked = estimate(plan, replace(self.speeds, flops=inf), self.tile_bytes)
        before_s = self.library_s(plan.problem)
        product_s = plan.problem.product_bytes / plan.devices / self.speeds.copied_bytes
        return replace(checked, first_s=checked.first_s + before_s, copy_s=checked.copy_s + before_s + product_s)
