"""Launch arithmetic that entries share: how a product is cut into tiles, one thread block each."""

from __future__ import annotations

from kernels.model.groups import tile_rows, tiles
from kernels.model.launch_plan import Launch
from kernels.model.numerics import Problem

MAX_GRID_Z = 65_535  # CUDA's limit; kernels loop over the rest of the batch
# Blocks of a cluster are neighbours on a chip. On the H100 and the H200 that were measured, with 132 multiprocessors,
# 15 clusters of eight or 31 of four run at once: a 16th, or a 32nd, waits for a second wave.
LARGE_CLUSTER, WITHOUT_CLUSTERS = 4, 8  # blocks, multiprocessors


def tile_grid(
    problem: Problem, tile: tuple[int, int], block: tuple[int, int], *, shared_bytes: int = 0, splits: int = 1
) -> Launch:
    """A block of `block` (x, y) threads for each tile of (rows, columns), or for each of `splits` parts of k of it.

    Tiles go on x alone (its limit is 2^31), columns of tiles fastest; the batch on z. Tiles do not cross groups.
    """
    rows, columns = tile
    grid_x = tiles(problem.n, columns) * tile_rows(problem, rows) * splits
    return Launch((grid_x, 1, min(problem.batch, MAX_GRID_Z)), (*block, 1), shared_bytes)


def blocks_at_once(cluster: int, multiprocessors: int) -> int:
    """How many blocks run at once in clusters of that size, one on a multiprocessor."""
    if cluster < LARGE_CLUSTER:
        return multiprocessors
    return max((multiprocessors - WITHOUT_CLUSTERS) // cluster, 1) * cluster
