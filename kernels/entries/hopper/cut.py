"""Which products of a Hopper kernel have so few tiles that these are cut along k, a part for each cluster
(hopper_cut.cuh), and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isqrt

from kernels.model.entry.config import TileConfig
from kernels.model.groups import tiles
from kernels.model.launch_plan import Launch, Workspace

SHORTEST, MOST_STAGES = 4, 1 << 20  # stages, as in hopper_cut.cuh, and so that 32 bits count them
MAX_MULTIPROCESSORS = 144  # of the full chip: no device of this compute capability has more
WARP_ROWS = 16  # whose sums a warp has
ELEMENT_BYTES = 4
LARGEST_SHARED_BYTES = 227 * 1024
# What a cut costs: until the last warp of a tile knows that it is the last, and for each column, sums to be written and
# those of each other part to be read. In clocks, seen on an H100.
START_CLOCKS, WRITE_CLOCKS, ADD_CLOCKS = 4_000, 10, 6
MIN_GAIN = 0.1  # of a product's time


@dataclass(frozen=True, slots=True)
class Cut:
    """Tiles of clusters, on so many clusters."""

    tiles: int
    clusters: int
    stages: int  # of a tile

    @property
    def parts(self) -> int:
        """Of a tile: as many as there are clusters for it, but no more than a part has stages."""
        return max(min(self.clusters // self.tiles, self.stages // SHORTEST, isqrt(self.stages)), 1)

    def clocks(self, stage: float, columns: int, end: float) -> float:
        """`stage`, `end`: clocks of a stage, and of what follows a tile's."""
        handing = START_CLOCKS + columns * (WRITE_CLOCKS + ADD_CLOCKS * (self.parts - 1))
        return tiles(self.stages, self.parts) * stage + end + handing

    def is_worth_it(self, stage: float, columns: int, end: float) -> bool:
        if self.parts == 1 or self.stages > MOST_STAGES:
            return False
        return self.clocks(stage, columns, end) < (1 - MIN_GAIN) * (self.stages * stage + end)


def in_parts(launch: Launch, stages: int) -> Launch:
    """With as many clusters as there are shares, and room for sums on their way."""
    return replace(launch, parts=max(stages // SHORTEST, 1), shared_bytes=LARGEST_SHARED_BYTES)


def room_for(config: TileConfig) -> Workspace:
    """For sums of as many parts as there are clusters."""
    bytes_of_all = MAX_MULTIPROCESSORS * config["block_m"] * config["block_n"] * ELEMENT_BYTES
    return Workspace(bytes_of_all, 0, ("CUT",), counters=MAX_MULTIPROCESSORS * config["block_m"] // WARP_ROWS)
