"""Tiles for the block, the warp and the thread: from report 003's last rung to a pipeline, and k cut in parts."""

from __future__ import annotations

from collections.abc import Mapping

from kernels.entries.register_tiles import RUN_BYTES
from kernels.model.arrange import tile_grid
from kernels.model.buckets import SKINNY
from kernels.model.entry.config import Constraint, Parameter, TileConfig
from kernels.model.groups import Grouped, tiles
from kernels.model.kernel import CudaKernel, Default, Kernel
from kernels.model.launch_plan import Launch, Workspace
from kernels.model.numerics import DTYPES, OWN_ACCURACY, DTypeName, Problem

Shape = tuple[int, int, int, int]  # rows and columns of a warp's tile, and of a thread's
Block = tuple[int, int]
LARGE: Shape = (32, 128, 16, 8)
SQUARE: Shape = (32, 64, 8, 8)
FINE: Shape = (32, 32, 8, 4)
FINEST: Shape = (16, 32, 4, 4)
SHAPES: tuple[Shape, ...] = (SQUARE, LARGE, (64, 64, 16, 8), FINE, FINEST)
BLOCKS: tuple[Block, ...] = ((128, 128), (128, 256), (256, 128), (128, 64), (64, 128), (64, 64))
SKINNY_SHAPES: tuple[Shape, ...] = (FINEST, FINE, SQUARE)
SKINNY_BLOCKS: tuple[Block, ...] = ((64, 64), (16, 64), (16, 128), (64, 32), (128, 32), (32, 64), (128, 128))


def _config(block: Block, depth: int, shape: Shape, **others: int) -> TileConfig:
    names = ("block_m", "block_n", "block_k", "warp_m", "warp_n", "thread_m", "thread_n")
    return dict(zip(names, (*block, depth, *shape), strict=True)) | others


def _threads(config: TileConfig) -> int:
    return (config["block_m"] // config["warp_m"]) * (config["block_n"] // config["warp_n"]) * 32


def _pair_bytes(config: TileConfig, dtype: DTypeName) -> int:
    """A tile of each operand in shared memory: block_k rows, padded by a run."""
    itemsize = DTYPES[dtype].accumulator_bytes
    return config["block_k"] * ((config["block_m"] + config["block_n"]) * itemsize + 2 * RUN_BYTES)


def _group_tiles(problem: Problem, config: Mapping[str, int]) -> int:
    """The number of tiles of one group's product."""
    return tiles(problem.m, config["block_m"]) * tiles(problem.n, config["block_n"])


def _two_pairs(config: TileConfig, dtype: DTypeName) -> int:
    return 2 * _pair_bytes(config, dtype)


def _stages(config: TileConfig, dtype: DTypeName) -> int:
    return config["stages"] * _pair_bytes(config, dtype)


def _accumulators(config: TileConfig) -> int:
    return config["thread_m"] * config["thread_n"]


def _launch(problem: Problem, config: TileConfig, shared_bytes: int) -> Launch:
    tile, block = (config["block_m"], config["block_n"]), (_threads(config), 1)
    return tile_grid(problem, tile, block, shared_bytes=shared_bytes, splits=config.get("splits", 1))


def _product_tiles(problem: Problem, config: TileConfig) -> int:
    return problem.batch * tiles(problem.m, config["block_m"]) * tiles(problem.n, config["block_n"])


def _workspace(problem: Problem, config: TileConfig) -> Workspace:
    """A counter for each tile of the product, and the sums of all parts of it."""
    if config["splits"] == 1:
        return Workspace(0, 0)
    count = _product_tiles(problem, config)
    counters = -(-count // 4) * RUN_BYTES
    sums = count * config["splits"] * config["block_m"] * config["block_n"]
    return Workspace(counters + sums * DTYPES[problem.dtype].accumulator_bytes, counters)


def _parameters(shapes: tuple[Shape, ...], blocks: tuple[Block, ...], depths: tuple[int, ...]) -> tuple[Parameter, ...]:
    def values(place: int) -> tuple[int, ...]:
        return tuple(sorted({shape[place] for shape in shapes}))

    default = shapes[0]
    return (
        Parameter(
            "block_m", tuple(sorted({m for m, _ in blocks})), blocks[0][0], "rows of the product per thread block"
        ),
        Parameter(
            "block_n", tuple(sorted({n for _, n in blocks})), blocks[0][1], "columns of the product per thread block"
        ),
        Parameter("block_k", depths, depths[0], "steps of k per shared tile"),
        Parameter("warp_m", values(0), default[0], "rows of the product per warp"),
        Parameter("warp_n", values(1), default[1], "columns of the product per warp"),
        Parameter("thread_m", values(2), default[2], "rows of the product per thread"),
        Parameter("thread_n", values(3), default[3], "columns of the product per thread"),
    )


def _rules(shapes: tuple[Shape, ...], blocks: tuple[Block, ...]) -> tuple[Constraint, ...]:
    """A warp tile is 32 thread tiles, 2 or 4 of them down, and a block at least 2 warps and at most 8."""
    warp_tiles = ", ".join(f"{warp_m}×{warp_n} in {m}×{n}" for warp_m, warp_n, m, n in shapes)
    block_tiles = ", ".join(f"{m}×{n}" for m, n in blocks)
    return (
        Constraint(
            lambda c: (c["warp_m"], c["warp_n"], c["thread_m"], c["thread_n"]) in shapes,
            f"A warp tile of {{warp_m}}×{{warp_n}} in {{thread_m}}×{{thread_n}} a thread is not one of: {warp_tiles}.",
        ),
        Constraint(
            lambda c: (c["block_m"], c["block_n"]) in blocks,
            f"A block of {{block_m}}×{{block_n}} is not one of: {block_tiles}.",
        ),
        Constraint(
            lambda c: c["block_m"] % c["warp_m"] == c["block_n"] % c["warp_n"] == 0 and 64 <= _threads(c) <= 256,
            "A block of {block_m}×{block_n} must be 2 to 8 warp tiles of {warp_m}×{warp_n}.",
        ),
    )


WARP_TILED: tuple[Kernel, ...] = (
    CudaKernel(
        name="warp_tiled",
        summary="Tiles for the block, for each warp, and for each thread.",
        idea="The lanes of a warp share a compact part of the block's tile, so a warp reads few words of shared memory "
        "for many multiply-adds: at 16×8 a thread, 160 for 4096. Tiles are double-buffered: the next ones are in "
        "flight from memory to registers while these are multiplied, and the block waits once per tile. Multiply-adds "
        "go along a row of the thread's tile and back along the next, which halves register bank conflicts. Rows of A "
        "may have groups, each with a matrix of its own: tiles do not cross from one into the next, and a block finds "
        "the group of its tile in a table, so one launch multiplies all.",
        origin="Report 003 (warp-level tiling); the order of multiply-adds is known from CUTLASS.",
        accuracy={**OWN_ACCURACY, "float8_e4m3": "fp32"},
        parameters=_parameters(SHAPES, BLOCKS, (16, 8)),
        constraints=_rules(SHAPES, BLOCKS),
        defaults=(
            Default(config=_config((64, 64), 16, FINEST), buckets=("small", "batched", *SKINNY)),
            Default(config=_config((64, 64), 16, FINE), dtypes=("float64",)),
            Default(config=_config((64, 64), 16, FINEST), buckets=("medium",), min_compute_capability=(12, 0)),
            Default(config=_config((64, 128), 16, FINE), buckets=("medium",)),
            Default(
                config=_config((128, 128), 16, LARGE),
                dtypes=("float16", "bfloat16", "int8", "float8_e4m3"),
                min_compute_capability=(8, 6),
            ),
            Default(config=_config((128, 256), 16, LARGE), buckets=("large",), min_compute_capability=(8, 6)),
        ),
        arrange=lambda problem, config: _launch(problem, config, _two_pairs(config, problem.dtype)),
        shared_bytes=_two_pairs,
        accumulators=_accumulators,
        groups=Grouped((*OWN_ACCURACY, "float8_e4m3"), _group_tiles),
    ),
)

PIPELINED: tuple[Kernel, ...] = (
    CudaKernel(
        name="pipelined",
        summary="Warp tiles fed by asynchronous copies, several tiles ahead.",
        idea="Copies go from memory straight into shared memory, stages - 1 tiles ahead, without passing through "
        "registers. A thread reads the operands of its next step while it multiplies those of this one. In the "
        "interior a tile is one stretch of code without a branch, so copies and reads spread among the multiply-adds. "
        "A copy moves 4 bytes at least: 16-bit and 8-bit types are left to `warp_tiled`. Rows of A may have groups, as "
        "there.",
        origin="Future work of report 000 (double-buffered shared memory pipelines).",
        accuracy={name: cls for name, cls in OWN_ACCURACY.items() if name in ("float32", "float64", "int32")},
        parameters=(
            *_parameters(SHAPES, BLOCKS, (8, 16)),
            Parameter("stages", (3, 4), 4, "pairs of tiles in shared memory"),
        ),
        constraints=(
            *_rules(SHAPES, BLOCKS),
            Constraint(
                lambda c: c["block_k"] * c["stages"] <= 48,
                "block_k × stages = {block_k} × {stages} must be at most 48: more shared memory gains nothing.",
            ),
        ),
        defaults=(
            Default(config=_config((64, 64), 16, FINEST, stages=3), buckets=("small", "batched", *SKINNY)),
            Default(config=_config((64, 64), 8, SQUARE, stages=3), dtypes=("float64",)),
            Default(config=_config((64, 128), 16, FINE, stages=3), buckets=("medium",)),
            Default(config=_config((128, 256), 8, LARGE, stages=4), buckets=("large",), min_compute_capability=(8, 6)),
        ),
        min_compute_capability=(8, 0),
        arrange=lambda problem, config: _launch(problem, config, _stages(config, problem.dtype)),
        shared_bytes=_stages,
        accumulators=_accumulators,
        groups=Grouped(("float32", "float64", "int32"), _group_tiles),
    ),
)

SPLIT_K: tuple[Kernel, ...] = (
    CudaKernel(
        name="split_k",
        summary="Several blocks share a tile of the product, each with a part of k.",
        idea="A product of few tiles and a long k leaves most multiprocessors idle. Here k is cut into parts, one per "
        "block. Partial sums go through a workspace, and the last block adds them, always in the order of k: the same "
        "operands give the same bits every time. It costs the traffic of the partial sums, so it is for skinny "
        "products.",
        origin="Future work of the reports; split-k is common in libraries.",
        accuracy=OWN_ACCURACY,
        parameters=(
            *_parameters(SKINNY_SHAPES, SKINNY_BLOCKS, (16, 32)),
            Parameter("splits", (1, 2, 4, 8, 16, 32, 64), 8, "parts that k is cut into", compiled=False),
        ),
        constraints=_rules(SKINNY_SHAPES, SKINNY_BLOCKS),
        defaults=(
            Default(config=_config((16, 64), 16, FINEST, splits=8), buckets=("wide",)),
            Default(config=_config((128, 32), 16, FINE, splits=8), buckets=("tall",)),
            Default(config=_config((64, 64), 16, FINEST, splits=64), buckets=("deep",)),
            Default(config=_config((64, 64), 16, FINEST, splits=1), buckets=("batched",)),
            Default(config=_config((64, 64), 16, FINEST, splits=4), buckets=("small",)),
            Default(config=_config((64, 64), 16, FINE, splits=2), dtypes=("float64",)),
            Default(config=_config((128, 128), 16, SQUARE, splits=2), buckets=("medium", "large")),
        ),
        arrange=lambda problem, config: _launch(problem, config, _two_pairs(config, problem.dtype)),
        shared_bytes=_two_pairs,
        accumulators=_accumulators,
        workspace=_workspace,
    ),
)
