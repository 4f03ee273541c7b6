"""How many waves of tiles a Hopper kernel on tensor cores takes, in which time, and what its clusters need in common:
a word to keep in step by (hopper_pace.cuh), or room for parts of tiles that are cut along k (hopper_cut.cuh)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from kernels.entries.hopper.cut import Cut, in_parts, room_for
from kernels.model.edge import core, edge_clocks
from kernels.model.entry.config import TileConfig
from kernels.model.groups import tile_count, tiles
from kernels.model.kernel import CudaKernel
from kernels.model.launch_plan import Launch, Workspace
from kernels.model.numerics import DTYPES, Problem
from kernels.model.triangle import MULTIPROCESSORS, triangle_tiles

BLOCK_M = 128  # usual rows of a tile: 64 of each warp group that multiplies
ROW_BYTES = 128  # of k, of each operand in a stage
# What a tile takes: each stage, and its end. Narrow tiles wait for copies, at more energy. By rows and columns, as best
# tells which of two sizes is faster (docs/decisions/0094); where columns are no whole boxes, whole boxes are copied.
TILE_CLOCKS = {
    (128, 64): (460, 1270),
    (128, 128): (595, 1660),
    (128, 160): (670, 3600),
    (128, 192): (780, 2770),
    (128, 224): (915, 3580),
    (128, 256): (1024, 3690),
    (192, 128): (795, 2820),
    (192, 144): (1030, 3170),
    (192, 176): (1080, 4260),
    (192, 192): (1150, 4220),
}
# Of operands of 32 bits out of registers.
TILE_CLOCKS_OF_WORDS = {
    (128, 64): (665, 210),
    (128, 128): (735, 980),
    (128, 160): (805, 2300),
    (128, 192): (805, 3090),
    (128, 224): (910, 3810),
    (128, 256): (1024, 4250),
    (192, 176): (1070, 4110),
    (192, 192): (1150, 4510),
}
# Of 8-bit floats by columns, measured on an H200.
STAGE_CLOCKS_OF_FP8 = {64: 490, 128: 560, 192: 810, 256: 1024}
END_CLOCKS_OF_FP8 = 20  # for each column
SLOWER_ALONE = 1.3  # of a stage of a block without another that shares its B, seen on an H100
GROUP = 8  # rows of clusters whose tiles are computed at about the same time, and cut into one more column of tiles
NARROWER = {256: 240}  # columns of some tiles of each width, if that fills a last wave
MIN_STAGES = 40_000  # of a cluster in a launch: with fewer nothing is gained (docs/decisions/0074)
MIN_TILE_STAGES = 64  # clusters count some times in each tile
COUNTER = Workspace(4, 4, ("PACED",))  # a word that all clusters count in


def as_it_lies(problem: Problem, config: TileConfig) -> bool:
    """Whether an MN-major B is multiplied out of registers: then Cᵀ = Bᵀ·Aᵀ is computed, tiles and all. Promoted sums
    leave no registers for that."""
    return DTYPES[problem.dtype].itemsize != 2 and not config.get("promote") and not problem.transpose_b


def sides(problem: Problem, config: TileConfig) -> tuple[int, int]:
    """Rows and columns of what is cut into tiles of block_m × block_n."""
    return (problem.n, problem.m) if as_it_lies(problem, config) else (problem.m, problem.n)


def _rows(config: Mapping[str, int]) -> int:
    """Of a cluster."""
    return config["block_m"] * config["cluster"]


def cluster_tile(problem: Problem, config: TileConfig) -> tuple[int, int]:
    """Rows and columns of C that a cluster computes."""
    rows, columns = _rows(config), config["block_n"]
    return (columns, rows) if as_it_lies(problem, config) else (rows, columns)


def group_tiles(problem: Problem, config: Mapping[str, int]) -> int:
    """Of one group's product: tiles of clusters, of which the last rows may need but one block, and then two tiles next
    to each other are one (hopper_grouped.cuh)."""
    rows, across = _rows(config), tiles(problem.n, config["block_n"])
    tall, rest = divmod(problem.m, rows)
    if rest > rows - config["block_m"]:
        return (tall + 1) * across
    return tall * across + (tiles(across, config["cluster"]) if rest else 0)


def inner(problem: Problem, config: TileConfig) -> Problem:
    return core(problem, config, cluster_tile(problem, config))


def waves_of(problem: Problem, config: TileConfig, multiprocessors: int) -> float:
    """Of whole tiles, of which some may be narrower, then of those thin ones that idle clusters do not take
    (hopper_schedule.cuh). A thin tile takes as long as another: it has as many stages."""
    (m, n), rows, columns = sides(inner(problem, config), config), _rows(config), config["block_n"]
    clusters = multiprocessors // config["cluster"]
    if problem.group_sizes:
        return tiles(tile_count(problem, partial(group_tiles, config=config)), clusters)
    if problem.symmetric:
        return tiles(triangle_tiles(problem, rows, columns), clusters)
    down, across = m // rows + (m % rows > config["block_m"] // 2), n // columns + (n % columns > columns // 2)
    whole = problem.batch * down * across
    thin = problem.batch * tiles(m, rows) * tiles(n, columns) - whole
    idle, more = -whole % clusters, 0
    if thin == 0 and columns in NARROWER and not config.get("promote") and n >= (across + 1) * NARROWER[columns]:
        more = min(idle // (GROUP * problem.batch), down // GROUP) * GROUP * problem.batch
    waves = tiles(whole, clusters) * (1 - more / max(whole + more, 1))
    return waves + tiles(max(thin - idle, 0), clusters)


def stages_of(problem: Problem) -> int:
    """Of a tile."""
    return tiles(problem.k * DTYPES[problem.dtype].itemsize, ROW_BYTES)


def _cut(problem: Problem, config: TileConfig, multiprocessors: int) -> Cut:
    """The tiles of 16-bit operands, which may be cut along k."""
    count = tiles(problem.m, _rows(config)) * tiles(problem.n, config["block_n"]) * problem.batch
    return Cut(count, multiprocessors // config["cluster"], stages_of(problem))


def _counter(problem: Problem, config: TileConfig) -> Workspace | None:
    """For products so long that clusters are kept in step. Rows in groups are too few for that."""
    stages = stages_of(problem)
    if stages < MIN_TILE_STAGES or problem.group_sizes:
        return None
    return COUNTER if stages * waves_of(problem, config, MULTIPROCESSORS) >= MIN_STAGES else None


def is_cut(problem: Problem, config: TileConfig) -> bool:
    """Whether it is forecast to gain by that, on a usual device. Three warp groups have no registers for it."""
    if DTYPES[problem.dtype].itemsize != 2 or problem.group_sizes or problem.symmetric or config["block_m"] != BLOCK_M:
        return False
    stage, end = _tile_clocks(problem, config)
    return _cut(problem, config, MULTIPROCESSORS).is_worth_it(stage, config["block_n"], end)


def workspace(problem: Problem, config: TileConfig) -> Workspace | None:
    """A word that clusters count in, or room for parts of tiles that are cut."""
    return room_for(config) if is_cut(problem, config) else _counter(problem, config)


def clocks(problem: Problem, config: TileConfig, multiprocessors: int) -> float:
    if not is_cut(problem, config):
        return clocks_of_whole(problem, config, multiprocessors)
    stage, end = _tile_clocks(problem, config)
    return _cut(problem, config, multiprocessors).clocks(stage, config["block_n"], end)


def clocks_of_whole(problem: Problem, config: TileConfig, multiprocessors: int) -> float:
    """Where no tile is cut."""
    stage, end = _tile_clocks(problem, config)
    slower = SLOWER_ALONE if problem.group_sizes and config["cluster"] == 1 else 1
    edge = edge_clocks(problem, config, cluster_tile(problem, config))
    return waves_of(problem, config, multiprocessors) * (stages_of(problem) * stage * slower + end) + edge


def _tile_clocks(problem: Problem, config: TileConfig) -> tuple[float, float]:
    """Of a stage, and of a tile's end."""
    rows, columns = config["block_m"], config["block_n"]
    if problem.dtype == "float8_e4m3":
        return STAGE_CLOCKS_OF_FP8[columns], columns * END_CLOCKS_OF_FP8
    of_words = problem.dtype == "float32" and as_it_lies(problem, config)
    return (TILE_CLOCKS_OF_WORDS if of_words else TILE_CLOCKS)[rows, columns]


def cut_always(kernel: CudaKernel) -> CudaKernel:
    """The kernel, where it cuts whatever may be cut, whether that gains or not: for tests, and to measure it."""

    def room(_problem: Problem, config: TileConfig) -> Workspace:
        return room_for(config)

    def arrange(problem: Problem, config: TileConfig) -> Launch:
        return in_parts(kernel.arrange(problem, config), stages_of(problem))

    return replace(kernel, workspace=room, arrange=arrange)


def never_cut(kernel: CudaKernel) -> CudaKernel:
    """The kernel, where it cuts nothing."""

    def arrange(problem: Problem, config: TileConfig) -> Launch:
        launch = kernel.arrange(problem, config)
        return replace(launch, parts=1, shared_bytes=kernel.shared_bytes(config, problem.dtype))

    return replace(kernel, workspace=None, arrange=arrange, clocks=clocks_of_whole)
