"""How a matrix is walked by the epilogue and by its check. Needs no device."""

from __future__ import annotations

from kernels.model.arrange import MAX_GRID_Z
from kernels.model.launch_plan import Launch
from worker.cuda.pitch import Layout

THREADS, WARPS = 256, 8
TILE_ROWS, TILE_COLUMNS = 32, 128  # of a block, as in cuda/src/epilogue.cu
CHECK_BLOCKS = 4096  # at most; each warp takes a row at a time


def epilogue_launch(d: Layout) -> Launch:
    """`d` is what is written."""
    tiles = -(-d.rows // TILE_ROWS) * -(-d.columns // TILE_COLUMNS)
    return Launch((tiles, 1, min(d.batch, MAX_GRID_Z)), (THREADS, 1, 1))


def check_launch(d: Layout) -> Launch:
    return Launch((min(CHECK_BLOCKS, -(-d.rows * d.batch // WARPS)), 1, 1), (THREADS, 1, 1))


def sizes(p: Layout, c: Layout, d: Layout) -> tuple[int, ...]:
    """The arguments of both functions between addresses and factors."""
    pitches, strides = (p.pitch, c.pitch, d.pitch), (p.stride, c.stride, d.stride)
    return d.rows, d.columns, *pitches, *strides, d.batch


def bias_steps(bias: Layout | None) -> tuple[int, int]:
    """The arguments of both functions of real matrices after the factors: the steps of a bias from row to row and from
    column to column of the product. One row serves all rows, one column all columns."""
    if bias is None:
        return 0, 0
    return 0 if bias.rows == 1 else bias.pitch, 0 if bias.columns == 1 else 1
