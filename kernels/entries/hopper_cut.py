"""Which products of a Hopper kernel have tiles that are cut along k, so that all clusters have an equal share of what
would not fill a last wave (hopper_cut.cuh), and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernels.model.entry.config import TileConfig
from kernels.model.groups import tiles
from kernels.model.kernel import CudaKernel
from kernels.model.launch_plan import Launch, Workspace
from kernels.model.numerics import Problem

SHORTEST, SECOND, MOST_STAGES = 4, 4, 1 << 15  # stages, as in hopper_cut.cuh
LIGHT = 9 / 16  # of a whole tile's time, that a thin one takes, as there
MOST_MULTIPROCESSORS = 144  # of the full chip: no device of this compute capability has more
WARPS = 8  # of a block, that have sums
ELEMENT_BYTES = 4
LARGEST_SHARED_BYTES = 227 * 1024
STAGE_DEPTH = 64  # steps of k, of 16-bit operands
# What a cut costs: until the last warp of a tile knows that it is the last, and for each column, sums to be written and
# those of each other part to be read. In clocks.
START_CLOCKS, WRITE_CLOCKS, ADD_CLOCKS = 2_000, 13, 13
LEAST_GAIN = 0.03  # of a product's time


@dataclass(frozen=True, slots=True)
class Cut:
    """Tiles of clusters, of which little lies inside C of the thin ones, on so many clusters. Shares are counted in
    units: a stage of a whole tile, or what takes as long of a thin one."""

    tiles: int
    thin: int
    clusters: int
    stages: int  # of a tile

    @property
    def light(self) -> int:
        """Units of a thin tile."""
        return tiles(9 * self.stages, 16)

    @property
    def count(self) -> int:
        """Tiles that are cut."""
        rest = self.tiles % self.clusters if 1 < self.stages <= MOST_STAGES else 0
        return rest + self.clusters if rest > self.thin and self.tiles > self.clusters else rest

    @property
    def units(self) -> int:
        """Of all tiles that are cut."""
        of_thin = min(self.count, self.thin)
        return of_thin * self.light + (self.count - of_thin) * self.stages

    @property
    def most(self) -> int:
        """Shares, where they do not end with their tiles."""
        return min(self.clusters, max(self.count, self.units // SHORTEST))

    @property
    def of_tile(self) -> int:
        """Shares of a tile, where they do; else 0."""
        each = self.most // self.count
        if each == 0 or 0 < self.thin < self.count:
            return 0
        is_even = tiles(self.units // self.count, each) <= tiles(self.units, self.most) + SECOND
        return each if is_even else 0

    @property
    def longest(self) -> int:
        """Units of a share."""
        return tiles(self.units // self.count, self.of_tile) if self.of_tile else tiles(self.units, self.most)

    @property
    def parts(self) -> int:
        """That a tile has at most."""
        own = self.light if self.thin >= self.count else self.stages
        return self.of_tile or max(own - 2, 0) // max(self.units // self.most, 1) + 2

    def clocks(self, stage: float, columns: int, end: float) -> float:
        """`stage`, `end`: clocks of a stage, and of what follows a tile's."""
        whole = (self.tiles - self.count) // self.clusters * (self.stages * stage + end)
        if not self.count:
            return whole
        width = min(columns, 128) if self.thin >= self.count else columns
        handing = START_CLOCKS + width * (WRITE_CLOCKS + ADD_CLOCKS * (self.parts - 1)) if self.parts > 1 else 0
        return whole + self.longest * stage + max(self.longest / self.stages, 1) * end + handing


def is_worth_it(cut: Cut, waves: float, stage: float, columns: int, end: float) -> bool:
    """`waves`: of whole tiles and thin ones, where none is cut."""
    if not cut.count or cut.stages < 2 * SHORTEST:
        return False
    whole = tiles(cut.tiles - cut.thin, cut.clusters)
    uncut = (min(waves, whole) + max(waves - whole, 0) * LIGHT) * (cut.stages * stage + end)
    return cut.clocks(stage, columns, end) < (1 - LEAST_GAIN) * uncut


def in_parts(launch: Launch, stages: int) -> Launch:
    """With as many clusters as there are shares, and room for sums on their way."""
    return replace(launch, parts=max(stages // SHORTEST, 1), shared_bytes=LARGEST_SHARED_BYTES)


def room_for(config: TileConfig, all_tiles: int) -> Workspace:
    """For the parts of tiles that are cut, which are fewer than those of two waves: fewer than they and clusters
    together."""
    clusters = MOST_MULTIPROCESSORS // config["cluster"]
    parts = clusters + min(all_tiles, 2 * clusters)
    part = config["block_m"] * config["block_n"] * config["cluster"] * ELEMENT_BYTES
    return Workspace(parts * part, 0, ("CUT",), counters=2 * MOST_MULTIPROCESSORS * WARPS)


def cut_always(kernel: CudaKernel) -> CudaKernel:
    """The kernel, where it cuts whatever may be cut, whether that gains or not: for tests, and to measure it."""

    def workspace(problem: Problem, config: TileConfig) -> Workspace:
        return room_for(config, kernel.arrange(problem, config).grid[0])

    def arrange(problem: Problem, config: TileConfig) -> Launch:
        return in_parts(kernel.arrange(problem, config), tiles(problem.k, STAGE_DEPTH))

    return replace(kernel, workspace=workspace, arrange=arrange)


def never_cut(kernel: CudaKernel) -> CudaKernel:
    """The kernel, where it cuts nothing."""

    def arrange(problem: Problem, config: TileConfig) -> Launch:
        launch = kernel.arrange(problem, config)
        return replace(launch, parts=1, shared_bytes=kernel.shared_bytes(config, problem.dtype))

    return replace(kernel, workspace=None, arrange=arrange)
