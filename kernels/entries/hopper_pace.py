"""Which products of a Hopper kernel are so long that its clusters are kept in step (hopper_pace.cuh)."""

from __future__ import annotations

from collections.abc import Callable

from kernels.model.entry.config import TileConfig
from kernels.model.groups import tiles
from kernels.model.launch_plan import Workspace
from kernels.model.numerics import DTYPES, Problem
from kernels.model.triangle import MULTIPROCESSORS

STAGE_BYTES = 128  # of k, of each operand
MIN_STAGES = 40_000  # of a cluster in a launch: with fewer nothing is gained (docs/decisions/0074)
MIN_TILE_STAGES = 64  # clusters count some times in each tile
COUNTER = Workspace(4, 4, ("PACED",))  # a word that all clusters count in


def counter_of(
    waves: Callable[[Problem, TileConfig, int], float],
) -> Callable[[Problem, TileConfig], Workspace | None]:
    """For a kernel of so many waves on so many multiprocessors. Rows in groups are too few for that."""

    def counter(problem: Problem, config: TileConfig) -> Workspace | None:
        stages = tiles(problem.k * DTYPES[problem.dtype].itemsize, STAGE_BYTES)
        if stages < MIN_TILE_STAGES or problem.group_sizes:
            return None
        return COUNTER if stages * waves(problem, config, MULTIPROCESSORS) >= MIN_STAGES else None

    return counter
