"""The edge of a product: its last few rows and columns, which some kernels leave to a separate function
(`worker/cuda/src/edge.cu`).

A product of 4,097 rows has a row of tiles with a single row of C each. They would take an extra wave, although that row
is only a vector times a matrix. `hopper_fp32` uses the same division, and multiplies both parts itself.
"""

from __future__ import annotations

from dataclasses import replace

from kernels.model.arrange import MAX_GRID_Z
from kernels.model.entry.config import Parameter, TileConfig
from kernels.model.groups import tiles
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTYPES, Problem

MAX_EDGE = 8  # rows, or columns
EDGE = Parameter(
    "edge",
    (0, MAX_EDGE),
    MAX_EDGE,
    "rows or columns past the last whole tile, at most, that a separate function multiplies",
    False,
)
THREADS, STRIP_BYTES, ROWS = 256, 64, 32  # of a block of edge.cu
FEW_BLOCKS = 264  # fewer blocks leave a device partly idle
START_CLOCKS = 10_000  # besides its reads, seen on an H200
BYTES_A_CLOCK = 1_500  # of operands, which it reads once


def core(problem: Problem, config: TileConfig, tile: tuple[int, int]) -> Problem:
    """The part left for the kernel, whose thread blocks have tiles of (rows, columns). For a symmetric product of which
    one triangle is computed, that is all of it.
    """
    if problem.symmetric:
        return problem
    limit = config.get("edge", 0)  # not every kernel that shares its arithmetic may leave one
    m, n = _whole(problem.m, tile[0], limit), _whole(problem.n, tile[1], limit)
    return problem if m == problem.m and n == problem.n else replace(problem, m=m, n=n)


def _whole(extent: int, tile: int, limit: int) -> int:
    rest = extent % tile
    return extent - rest if extent > tile and rest <= limit else extent


def edge_clocks(problem: Problem, config: TileConfig, tile: tuple[int, int]) -> float:
    """The approximate clocks for multiplying the edge; 0 if there is none."""
    inner = core(problem, config, tile)
    rows, columns = inner.m < problem.m, inner.n < problem.n
    if not rows and not columns:
        return 0.0
    size = problem.batch * problem.k * (problem.n * rows + inner.m * columns) * DTYPES[problem.dtype].itemsize
    return START_CLOCKS + size / BYTES_A_CLOCK


def is_small(problem: Problem, inner: Problem) -> bool:
    """Whether blocks of the usual width would be too few for a device, so that narrow ones are used."""
    return edge_launch(problem, inner, narrow=False).grid[0] * problem.batch <= FEW_BLOCKS


def edge_launch(problem: Problem, inner: Problem, *, narrow: bool) -> Launch:
    """The launch for everything outside of `inner`: blocks of the rows, then of the columns above them. A block takes a
    strip of the matrix that few vectors are multiplied by: columns of 64 bytes, or ROWS rows along k. A narrow block
    takes half and a quarter of that."""
    strip_bytes, rows = (STRIP_BYTES // 2, ROWS // 4) if narrow else (STRIP_BYTES, ROWS)
    strip = strip_bytes // DTYPES[problem.dtype].itemsize
    of_rows = tiles(problem.n, rows if problem.transpose_b else strip) if inner.m < problem.m else 0
    of_columns = tiles(inner.m, strip if problem.transpose_a else rows) if inner.n < problem.n else 0
    return Launch((of_rows + of_columns, 1, min(problem.batch, MAX_GRID_Z)), (THREADS, 1, 1))
