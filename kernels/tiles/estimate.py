"""How long a product in tiles takes, by the speeds of its devices; and which plan is taken for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernels.model.numerics import DTYPES, Problem
from kernels.tiles.plan import PLACES, Side, TileBytes, TilePlan, plans, slices

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

    first_s: float  # until the first panels are there, less what is computed of the first tile meanwhile
    compute_s: float  # kernels and checks
    copy_s: float  # everything that is copied to one device
    last_s: float  # until what was computed last is compared

    @property
    def total_s(self) -> float:
        return max(self.first_s + self.compute_s + self.last_s, self.copy_s)


def estimate(plan: TilePlan, speeds: Speeds, tile_bytes: Callable[[Problem], TileBytes]) -> Estimate:
    """For the device with the most to do."""
    problem, of_tile = plan.problem, tile_bytes(plan.largest.problem(plan.problem))
    outer, inner = (of_tile.a, of_tile.b) if plan.outer == "a" else (of_tile.b, of_tile.a)
    count = -(-plan.count // plan.devices)
    kernels_s = problem.flops / plan.devices / speeds.flops
    # The check reads B twice. With alpha and beta, the pass and its check touch three tiles.
    read_bytes = of_tile.a + 2 * of_tile.b + 2 * of_tile.c + 6 * of_tile.added
    again = _again_bytes(plan, has_addend=of_tile.added > 0) / plan.devices
    compute_s = kernels_s + count * (read_bytes / speeds.memory_bytes + TILE_S) + 2 * again / speeds.memory_bytes
    inner_s, outer_s, added_s = (each / speeds.copied_bytes for each in (inner, outer, of_tile.added))
    outers, inners = _loads(plan, count)
    copy_s = outers * outer_s + inners * inner_s + count * added_s + again / speeds.copied_bytes
    meanwhile_s = min(outer_s, kernels_s / count) * (1 - 1 / len(slices(plan, plan.largest)))
    # Rows of the product are whole, and are read once more, once all tiles of an outer panel of A are there.
    rows = len(plan.rows) * len(plan.items) if plan.outer == "a" else 1
    last_s = problem.product_bytes / max(rows, plan.devices) / speeds.copied_bytes
    return Estimate(inner_s + outer_s + added_s - meanwhile_s, compute_s, copy_s, last_s)


def _loads(plan: TilePlan, count: int) -> tuple[int, int]:
    """How many outer and inner panels a device with so many tiles is brought: those that passed last are still there
    when the others turn back."""
    inners = len(plan.spans_of(plan.inner))
    outers = -(-count // inners)
    if len(plan.items) > 1:
        return outers, count
    return outers, inners + (outers - 1) * max(0, inners - PLACES)


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
    """The one that should take the least time; None where k is too deep for any."""
    fitting = plans(problem, device_bytes=device_bytes, tile_bytes=tile_bytes, devices=devices)
    return min(fitting, key=lambda plan: estimate(plan, speeds, tile_bytes).total_s, default=None)
