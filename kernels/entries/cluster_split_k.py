"""k split among the blocks of a thread block cluster: small, skinny and batched products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import log2

from kernels.model.arrange import MAX_GRID_Z, blocks_at_once, tile_grid
from kernels.model.buckets import BUCKET_NAMES
from kernels.model.entry.config import Constraint, Parameter, TileConfig
from kernels.model.groups import tiles
from kernels.model.kernel import CudaKernel, Default, Kernel
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTYPES, OWN_ACCURACY, DTypeName, Problem

RING = 128  # steps of k in shared memory
RUN_BYTES = 16
# Rows and columns of the block's tile, of a thread's, and the groups of threads that split each stage's steps.
Shape = tuple[int, int, int, int, int]
TINY: Shape = (16, 16, 4, 4, 8)
FINE: Shape = (32, 32, 4, 4, 4)
WHOLE: Shape = (32, 32, 4, 4, 1)
SQUARE: Shape = (64, 64, 4, 4, 1)
SLICED: Shape = (64, 64, 8, 4, 2)
WIDE: Shape = (16, 128, 8, 4, 4)
TALL: Shape = (128, 16, 4, 8, 4)
SHAPES: tuple[Shape, ...] = (FINE, TINY, WHOLE, (32, 64, 4, 4, 2), SQUARE, SLICED, (64, 64, 8, 4, 4), WIDE, TALL)
NAMES = ("block_m", "block_n", "thread_m", "thread_n", "slices")
# Clocks of a block in these tiles: a step of k with its latency exposed, one with it hidden, and everything else.
# Fitted to 6,100 times by hand on an H100 (docs/notes/cluster_split_k.md).
CLOCKS: Mapping[tuple[int, ...], tuple[float, float, float]] = {
    TINY: (19.0, 6.9, 380.0),
    FINE: (26.8, 21.6, 1160.0),
    SLICED: (20.0, 55.0, 2130.0),
    WIDE: (42.0, 42.0, 1650.0),
    TALL: (36.2, 33.5, 2100.0),
}
MEET_CLOCKS = 1_370.0  # each time that a cluster's size doubles
FEW_WAVES = 3  # behind more, what large clusters leave idle is hidden (docs/notes/cluster_split_k.md)
NOT_BATCHED = tuple(name for name in BUCKET_NAMES if name != "batched")


def _config(shape: Shape, block_k: int, cluster: int, items: int = 1) -> TileConfig:
    return dict(zip(NAMES, shape, strict=True)) | {"block_k": block_k, "cluster": cluster, "items": items}


# Measured for float32 alone: deep products with few tiles, and skinny ones whose tiles are enough blocks.
OF_FLOAT32 = (
    _config(FINE, 32, 8),
    _config(SLICED, 64, 2),
    _config(SLICED, 64, 8),
    _config(WIDE, 32, 1),
    _config(TALL, 64, 1),
    _config(TALL, 64, 2),
)


def _shared_bytes(config: TileConfig, dtype: DTypeName) -> int:
    """RING steps of both operands, each stage's lines in the longer of their two orders; then, if sums are combined,
    a tile of them for each slice."""
    size = DTYPES[dtype].itemsize
    block_m, block_n = config["block_m"], config["block_n"]
    ring = RING // config["block_k"] * (block_m + block_n) * (config["block_k"] * size + RUN_BYTES)
    meet = config["slices"] * config["cluster"] > 1
    return max(ring, config["slices"] * block_m * block_n * size if meet else 0)


def _threads(config: TileConfig) -> int:
    return config["block_m"] * config["block_n"] // (config["thread_m"] * config["thread_n"]) * config["slices"]


def _clusters(problem: Problem, config: TileConfig) -> Launch:
    """A cluster for each tile; on z, one for each `items` consecutive products of a batch."""
    tile, block = (config["block_m"], config["block_n"]), (_threads(config), 1)
    shared_bytes = _shared_bytes(config, problem.dtype)
    flat = tile_grid(problem, tile, block, shared_bytes=shared_bytes, splits=config["cluster"])
    deep = min(tiles(problem.batch, config["items"]), MAX_GRID_Z)
    return replace(flat, grid=(*flat.grid[:2], deep), cluster=config["cluster"])


def _clocks(problem: Problem, config: TileConfig, multiprocessors: int) -> float:
    """The latency of a block, or all the work of a multiprocessor, whichever takes longer."""
    cluster, shape = config["cluster"], tuple(config[name] for name in NAMES)
    latency, work, besides = CLOCKS.get(shape, CLOCKS[FINE])  # others are alone in their bucket
    of_product = tiles(problem.m, config["block_m"]) * tiles(problem.n, config["block_n"])
    blocks = of_product * tiles(problem.batch, config["items"]) * cluster
    steps = tiles(problem.k, config["block_k"] * cluster) * config["block_k"] * config["items"]
    waves = tiles(blocks, multiprocessors)
    if waves <= FEW_WAVES:
        waves = tiles(blocks, blocks_at_once(cluster, multiprocessors))
    shared_out = waves * (steps * work + besides)
    return MEET_CLOCKS * log2(cluster) + max(steps * latency + besides, shared_out)


def _values(place: int) -> tuple[int, ...]:
    return tuple(sorted({shape[place] for shape in SHAPES}))


_OFFER = ", ".join(f"{m}×{n} in {of_m}×{of_n} with {slices}" for m, n, of_m, of_n, slices in SHAPES)

CLUSTER_SPLIT_K: tuple[Kernel, ...] = (
    CudaKernel(
        name="cluster_split_k",
        summary="k split among the blocks of a cluster, which add up through each other's shared memory.",
        idea="A small product ends before a large tile's pipeline has filled, so latency is what counts. Tiles are "
        "small, and k is split twice, among the blocks of a cluster and among the threads of each, so that all "
        "multiprocessors have work. A block starts the copies of 128 steps of k before it waits for any, 16 bytes each "
        "in either layout, and sums meet in shared memory, which the blocks of a cluster read from one another. So "
        "there is one launch, no workspace, and nothing to zero; the order of additions is fixed, and the same "
        "operands give the same bits every time. For skinny products the same source is a stream: tiles of 16 rows or "
        "columns by 128, with enough copies in flight to keep memory busy. For batches of small products a block takes "
        "several, and the copies of the next begin while one is multiplied.",
        origin="split-k as in `split_k`; clusters and distributed shared memory as in NVIDIA's CUDA C++ Programming "
        "Guide, on compute capability 9.0 and up; shares of k within a block are CUTLASS's sliced-k.",
        accuracy={name: OWN_ACCURACY[name] for name in ("float32", "float64", "int32")},
        min_compute_capability=(9, 0),
        parameters=(
            Parameter("block_m", _values(0), FINE[0], "rows of the product per thread block"),
            Parameter("block_n", _values(1), FINE[1], "columns of the product per thread block"),
            Parameter("thread_m", _values(2), FINE[2], "rows of the product per thread"),
            Parameter("thread_n", _values(3), FINE[3], "columns of the product per thread"),
            Parameter("slices", _values(4), FINE[4], "groups of threads that split the steps of k of a stage"),
            Parameter("block_k", (32, 64), 32, "steps of k per stage; 128 are in shared memory"),
            Parameter("cluster", (1, 2, 4, 8), 2, "thread blocks that split k"),
            Parameter("items", (1, 2, 4, 8), 1, "products of a batch per thread block", compiled=False),
        ),
        constraints=(
            Constraint(
                lambda c: tuple(c[name] for name in NAMES) in SHAPES,
                "A block of {block_m}×{block_n} in {thread_m}×{thread_n} a thread with {slices} slices is not one of: "
                f"{_OFFER}.",
            ),
        ),
        defaults=(
            Default(config=_config(WHOLE, 32, 1, items=4), buckets=("batched",)),
            # Integers in tiny tiles would spill.
            Default(config=_config(TINY, 64, 1), buckets=NOT_BATCHED, dtypes=("float32", "float64")),
            Default(config=_config(TINY, 64, 8), buckets=NOT_BATCHED, dtypes=("float32", "float64")),
            *(Default(config=config, buckets=NOT_BATCHED, dtypes=("float32",)) for config in OF_FLOAT32),
            Default(config=_config(FINE, 32, 2), buckets=NOT_BATCHED),
            Default(config=_config(SLICED, 32, 1), buckets=NOT_BATCHED),
            Default(config=_config(SLICED, 32, 2), buckets=NOT_BATCHED),
            Default(config=_config(WIDE, 32, 8), buckets=NOT_BATCHED),
            Default(config=_config(TALL, 64, 8), buckets=NOT_BATCHED),
        ),
        clocks=_clocks,
        arrange=_clusters,
        shared_bytes=_shared_bytes,
        accumulators=lambda config: config["thread_m"] * config["thread_n"],
    ),
)
