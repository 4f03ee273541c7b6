"""How long a product in tiles takes, by the speeds of its devices; and which plan is taken for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernels.model.numerics import Problem
from kernels.tiles.plan import TileBytes, TilePlan, plans

TILE_S = 1e-3  # what a tile takes beside its kernel: launches, and the word of its check


@dataclass(frozen=True, slots=True)
class Speeds:
    """Of one device, a second."""

    flops: float  # by the kernel that computes the tiles
    copied_bytes: float  # from the host's memory to the device
    memory_bytes: float  # of the device's own memory, as its check reads


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds. The device computes and copies at the same time."""

    first_s: float  # until the first panels are there
    compute_s: float  # kernels and checks
    copy_s: float  # everything that is copied to one device
    last_s: float  # until what was computed last is compared

    @property
    def total_s(self) -> float:
        return self.first_s + max(self.compute_s, self.copy_s - self.first_s - self.last_s) + self.last_s


def estimate(plan: TilePlan, speeds: Speeds, tile_bytes: Callable[[Problem], TileBytes]) -> Estimate:
    """For the device with the most to do. An operand's bytes are copied once more than they are used, so that they can
    be compared with those that were sent, and a product's come back for the same reason."""
    largest = plan.largest
    of_tile = tile_bytes(largest.problem(plan.problem))
    outer, inner = (of_tile.a, of_tile.b) if plan.outer == "a" else (of_tile.b, of_tile.a)
    count = -(-plan.count // plan.devices)
    inner_count = len(plan.columns if plan.outer == "a" else plan.rows)
    read_bytes = of_tile.a + of_tile.b + of_tile.c + 6 * of_tile.added  # the pass, and its check, touch three tiles
    compute_s = plan.problem.flops / plan.devices / speeds.flops + count * (read_bytes / speeds.memory_bytes + TILE_S)
    products = 2 if of_tile.added else 1  # C, too
    again = (plan.problem.operand_bytes + products * plan.problem.product_bytes) / plan.devices
    copied = -(-count // inner_count) * outer + count * (inner + of_tile.added) + again
    # Rows of the product are whole, and are read once more, once all tiles of an outer panel of A are there.
    rows = len(plan.rows) * len(plan.items) if plan.outer == "a" else 1
    last = plan.problem.product_bytes / max(rows, plan.devices)
    first_s, copy_s, last_s = (each / speeds.copied_bytes for each in (outer + inner + of_tile.added, copied, last))
    return Estimate(first_s, compute_s, copy_s, last_s)


def best_plan(
    problem: Problem,
    speeds: Speeds,
    *,
    device_bytes: int,
    tile_bytes: Callable[[Problem], TileBytes],
    devices: int = 1,
) -> TilePlan | None:
    """The one that should take the least time; None where k is too deep for any."""
    fitting = plans(problem, device_bytes=device_bytes, tile_bytes=tile_bytes, devices=devices)
    return min(fitting, key=lambda plan: estimate(plan, speeds, tile_bytes).total_s, default=None)
