"""Which products of a Hopper kernel are so deep that its clusters are kept in step (hopper_pace.cuh)."""

from __future__ import annotations

from collections.abc import Callable

from kernels.model.entry.config import TileConfig
from kernels.model.groups import tiles
from kernels.model.launch_plan import Launch, Workspace
from kernels.model.numerics import DTYPES, Problem
from kernels.model.triangle import MULTIPROCESSORS

MIN_STAGES = 256  # of a tile: with fewer, clusters do not drift far
MIN_WAVES = 2  # full ones: a wave alone begins together
STAGE_BYTES = 128  # of k, of each operand
COUNTER = Workspace(4, 4, ("PACED",))  # a word that all clusters count in


def counter_of(arrange: Callable[[Problem, TileConfig], Launch]) -> Callable[[Problem, TileConfig], Workspace | None]:
    """For a kernel whose launch has a grid of tiles. Groups have too few rows for that."""

    def counter(problem: Problem, config: TileConfig) -> Workspace | None:
        stages = tiles(problem.k * DTYPES[problem.dtype].itemsize, STAGE_BYTES)
        waves = arrange(problem, config).grid[0] // MULTIPROCESSORS
        return COUNTER if stages >= MIN_STAGES and waves >= MIN_WAVES and not problem.group_sizes else None

    return counter
