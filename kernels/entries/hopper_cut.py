"""Which products of a Hopper kernel have tiles that are cut along k, so that all clusters have an equal share of what
would not fill a last wave (hopper_cut.cuh), and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernels.model.entry.config import TileConfig
from kernels.model.groups import tiles
from kernels.model.kernel import CudaKernel
from kernels.model.launch_plan import Launch, Workspace
from kernels.model.numerics import Problem

SHORTEST, SECOND = 4, 4  # stages, as in hopper_cut.cuh
MOST_MULTIPROCESSORS = 144  # of the full chip: no device of this compute capability has more
WARPS = 8  # of a block, that have sums
ELEMENT_BYTES = 4
STAGE_DEPTH = 64  # steps of k, of 16-bit operands
# What a cut costs: until the last warp of a tile knows that it is the last, and for each column, sums to be written and
# those of each other part to be read. In clocks.
START_CLOCKS, WRITE_CLOCKS, ADD_CLOCKS = 2_000, 13, 13
THIN = 0.6  # of a stage's time, where little of a tile lies inside C
LEAST_GAIN = 0.03  # of a product's time


@dataclass(frozen=True, slots=True)
class Cut:
    """Tiles of clusters, of which little lies inside C of the thin ones, on so many clusters."""

    tiles: int
    thin: int
    clusters: int
    stages: int  # of a tile

    @property
    def rest(self) -> int:
        """Tiles that are cut."""
        return self.tiles % self.clusters

    @property
    def of_tile(self) -> int:
        """Shares of a tile, where they end with their tiles; else 0."""
        most = max(self.rest, min(self.clusters, self.rest * self.stages // SHORTEST))
        even = tiles(self.stages, most // self.rest)
        return most // self.rest if even <= tiles(self.rest * self.stages, most) + SECOND else 0

    @property
    def longest(self) -> int:
        """Stages of a share."""
        if self.of_tile:
            return tiles(self.stages, self.of_tile)
        return tiles(self.rest * self.stages, max(self.rest, min(self.clusters, self.rest * self.stages // SHORTEST)))

    @property
    def parts(self) -> int:
        """That a tile has at most."""
        return self.of_tile or tiles(self.stages, self.longest) + 1

    def clocks(self, stage: float, columns: int, end: float) -> float:
        """`stage`, `end`: clocks of a stage, and of what follows them."""
        whole = self.tiles // self.clusters * (self.stages * stage + end)
        if not self.rest:
            return whole
        is_thin = self.thin >= self.rest
        width = min(columns, 128) if is_thin else columns
        handing = START_CLOCKS + width * (WRITE_CLOCKS + ADD_CLOCKS * (self.parts - 1))
        second = 0 if self.of_tile else width * WRITE_CLOCKS
        return whole + self.longest * stage * (THIN if is_thin else 1) + end + (handing + second) * (self.parts > 1)


def is_worth_it(cut: Cut, waves: float, stage: float, columns: int, end: float) -> bool:
    """`waves`: of whole tiles and thin ones, where none is cut."""
    if not cut.rest or cut.stages < 2 * SHORTEST:
        return False
    whole = tiles(cut.tiles - cut.thin, cut.clusters)
    uncut = (min(waves, whole) + max(waves - whole, 0) * THIN) * (cut.stages * stage + end)
    return cut.clocks(stage, columns, end) < (1 - LEAST_GAIN) * uncut


def room_for(config: TileConfig, all_tiles: int) -> Workspace:
    """For the parts of tiles that are cut: fewer than tiles and clusters together."""
    clusters = MOST_MULTIPROCESSORS // config["cluster"]
    parts = clusters + min(all_tiles, clusters)
    part = config["block_m"] * config["block_n"] * config["cluster"] * ELEMENT_BYTES
    return Workspace(parts * part, 0, ("CUT",), counters=MOST_MULTIPROCESSORS * WARPS)


def cut_always(kernel: CudaKernel) -> CudaKernel:
    """The kernel, where it cuts whatever may be cut, whether that gains or not: for tests, and to measure it."""

    def workspace(problem: Problem, config: TileConfig) -> Workspace:
        return room_for(config, kernel.arrange(problem, config).grid[0])

    def arrange(problem: Problem, config: TileConfig) -> Launch:
        parts = max(problem.k // (SHORTEST * STAGE_DEPTH), 1)
        return replace(kernel.arrange(problem, config), parts=parts, shared_bytes=kernel.fused_shared_bytes)

    return replace(kernel, workspace=workspace, arrange=arrange)
