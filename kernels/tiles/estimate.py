"""Estimates the time of a product in tiles from the speeds of its devices, and chooses its plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernels.model.numerics import DTYPES, Problem
from kernels.tiles.fitting import plans
from kernels.tiles.plan import PLACES, Side, TileBytes, TilePlan, slices

TILE_S = 1e-3  # overhead of a tile besides its kernel: launches, and reading the result of its check

TOGETHER = 8  # the norm by which copies and kernels add up, from a simulation of their order
PEER_BYTES = 200e9  # a second, from one device to another


@dataclass(frozen=True, slots=True)
class Speeds:
    """The speeds of one device, per second."""

    flops: float  # by the kernel that computes the tiles
    copied_bytes: float  # from the host's memory to the device
    memory_bytes: float  # of the device's own memory, as its check reads


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds. The device computes and copies at the same time."""

    first_s: float  # until the first panels are there, less what is computed of the first tile meanwhile
    compute_s: float  # kernels and checks
    copy_s: float  # everything that is copied to one device
    last_s: float  # until what was computed last is compared

    @property
    def total_s(self) -> float:
        """The total time: somewhat more than the longer of computing and copying, because each sometimes waits for the
        other.
        """
        computing_s = self.first_s + self.compute_s + self.last_s
        longer, shorter = max(computing_s, self.copy_s), min(computing_s, self.copy_s)
        return longer * (1 + (shorter / longer) ** TOGETHER) ** (1 / TOGETHER) if longer else 0.0


def estimate(plan: TilePlan, speeds: Speeds, tile_bytes: Callable[[Problem], TileBytes]) -> Estimate:
    """The time of the device that has most to do."""
    problem, largest = plan.problem, plan.largest
    of_tile, share, count = tile_bytes(largest.problem(problem)), plan.largest_share, -(-plan.count // plan.devices)
    outer, inner = (of_tile.a, of_tile.b) if plan.outer == "a" else (of_tile.b, of_tile.a)
    passing = plan.spans_of(plan.inner)
    passed = sum(span.size for span in passing) / passing[0].size  # whole panels
    outers = count / len(passing)
    inners = _inners_brought(plan, outers)
    again = _again_bytes(plan, has_addend=of_tile.added > 0) * share
    kernels_s = problem.flops * share / speeds.flops
    # The check reads A and the tile of each, B twice; and the tile's fingerprint is taken.
    of_outer, of_inner = (1, 2) if plan.outer == "a" else (2, 1)
    read_bytes = of_outer * outer * count + of_inner * inner * outers * passed
    read_bytes += (2 * of_tile.c + 6 * of_tile.added) * count + 2 * again
    compute_s = kernels_s + read_bytes / speeds.memory_bytes + count * TILE_S
    inner_s, outer_s, added_s = (each / speeds.copied_bytes for each in (inner, outer, of_tile.added))
    # Inner panels come from the host to one device, and from that to the others.
    shared_s = inner_s / plan.devices + inner * (1 - 1 / plan.devices) / PEER_BYTES
    copy_s = outers * outer_s + inners * shared_s + count * added_s + again / speeds.copied_bytes
    meanwhile_s = min(outer_s, kernels_s / count) * (1 - 1 / len(slices(plan, largest)))
    # Rows of the product are whole, and are read once more, once all tiles of an outer panel of A are there.
    rows = len(plan.rows) * len(plan.items) if plan.outer == "a" else 1
    last_s = problem.product_bytes / max(rows, plan.devices) / speeds.copied_bytes
    return Estimate(inner_s + outer_s + added_s - meanwhile_s, compute_s, copy_s, last_s)


def _inners_brought(plan: TilePlan, outers: float) -> float:
    """Inner panels that come to a device: those that passed last are still there when the others turn back."""
    passing = len(plan.spans_of(plan.inner))
    if len(plan.items) > 1:
        return outers * passing
    return passing + (outers - 1) * max(0, passing - PLACES)


def _again_bytes(plan: TilePlan, *, has_addend: bool) -> int:
    """What is read once more to be compared with what was sent, or with what was computed: the product, C, and operands
    whose digests cannot be taken of panels."""
    problem = plan.problem
    sides: tuple[Side, Side] = ("a", "b")
    shapes = (problem.m, problem.a_batched), (problem.n, problem.b_batched)
    of_line = problem.k * DTYPES[problem.dtype].itemsize
    sizes = [lines * of_line * (problem.batch if batched else 1) for lines, batched in shapes]
    read = sum(size for side, size in zip(sides, sizes, strict=True) if not plan.is_in_parts(side))
    return read + (2 if has_addend else 1) * problem.product_bytes


def best_plan(
    problem: Problem,
    speeds: Speeds,
    *,
    device_bytes: int,
    tile_bytes: Callable[[Problem], TileBytes],
    devices: int = 1,
) -> TilePlan | None:
    """The plan with the shortest estimated time; None if k is too large for any."""
    fitting = plans(problem, device_bytes=device_bytes, tile_bytes=tile_bytes, devices=devices)
    return min(fitting, key=lambda plan: estimate(plan, speeds, tile_bytes).total_s, default=None)
