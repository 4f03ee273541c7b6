"""A tile of the product in the registers of each thread: where a kernel comes near the library."""

from __future__ import annotations

from kernels.model.arrange import tile_grid
from kernels.model.buckets import SKINNY
from kernels.model.entry.config import Constraint, Parameter, TileConfig
from kernels.model.kernel import CudaKernel, Default, Kernel
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTYPES, OWN_ACCURACY, DTypeName, Problem

RUN_BYTES = 16  # the widest load and store, and what rows of tiles in shared memory are padded by


def _group(dtype: DTypeName) -> int:
    """Accumulators in a run."""
    return RUN_BYTES // DTYPES[dtype].accumulator_bytes


def _tile_bytes(config: TileConfig, dtype: DTypeName) -> int:
    """One tile of each operand in shared memory, BLOCK_K padded rows of each."""
    words = config["block_k"] * (config["block_m"] + config["block_n"] + 2 * _group(dtype))
    return words * DTYPES[dtype].accumulator_bytes


def _thread_tile(config: TileConfig) -> int:
    return config["thread_m"] * config["thread_n"]


def _threads(config: TileConfig) -> tuple[int, int]:
    """Threads of a block, across and down."""
    return config["block_n"] // config["thread_n"], config["block_m"] // config["thread_m"]


def _scalar_bytes(config: TileConfig, dtype: DTypeName) -> int:
    """A's tile as BLOCK_M rows along k, B's as BLOCK_K rows, all padded."""
    m, n, k = config["block_m"], config["block_n"], config["block_k"]
    return (m * (k + _group(dtype)) + k * (n + _group(dtype))) * DTYPES[dtype].accumulator_bytes


def _register_launch(problem: Problem, config: TileConfig) -> Launch:
    shared_bytes = _scalar_bytes(config, problem.dtype)
    return tile_grid(problem, (config["block_m"], config["block_n"]), _threads(config), shared_bytes=shared_bytes)


def _vector_launch(problem: Problem, config: TileConfig) -> Launch:
    shared_bytes = _tile_bytes(config, problem.dtype)
    return tile_grid(problem, (config["block_m"], config["block_n"]), _threads(config), shared_bytes=shared_bytes)


def _whole_threads(config: TileConfig) -> bool:
    across, down = _threads(config)
    return (
        config["block_n"] % config["thread_n"] == 0
        and config["block_m"] % config["thread_m"] == 0
        and across * down % 32 == 0
        and 64 <= across * down <= 1024
    )


def _config(block: int, depth: int, thread: int) -> TileConfig:
    """Square tiles."""
    return {"block_m": block, "block_n": block, "block_k": depth, "thread_m": thread, "thread_n": thread}


THREADS = Constraint(
    _whole_threads,
    "A block of {block_m}×{block_n} in thread tiles of {thread_m}×{thread_n} must be a whole number of threads, "
    "in 2 to 32 whole warps.",
)
SQUARE = Constraint(
    lambda c: c["block_m"] == c["block_n"], "block_m and block_n must be equal, not {block_m} and {block_n}."
)
# What the reports measured: squares, and those of thread blocks wider than high.
THREAD_TILES = ((2, 2), (3, 3), (4, 4), (6, 6), (8, 8), (8, 4), (12, 3), (16, 4), (16, 8))

REGISTER: tuple[Kernel, ...] = (
    CudaKernel(
        name="register_tiled",
        summary="Each thread keeps a two-dimensional tile of the product in registers.",
        idea="A thread reads thread_m elements of A and thread_n of B for thread_m × thread_n multiply-adds, so shared "
        "memory is read 8 times less at 8×8 than with one element a thread. Rows and columns of a thread are spaced by "
        "the block's threads: neighbours read and write neighbouring words. Loads of a whole tile are in flight while "
        "other warps still multiply. Reports 000 and 002 write one variable and one guarded load by hand for each "
        "element, with a script in 002; here both are arrays that the compiler unrolls, edges cost the interior "
        "nothing, and any size works. The limit is the instruction count: every word of B is a load of its own.",
        origin="Reports 000 (block 16, tile 64), 002 (bx × by and tiles of 48 to 128), 003 (2D block tiling), "
        "004 (level 3).",
        accuracy=OWN_ACCURACY,
        parameters=(
            Parameter("block_m", (32, 48, 64, 96, 128), 128, "rows of the product per thread block"),
            Parameter("block_n", (32, 48, 64, 96, 128), 128, "columns of the product per thread block"),
            Parameter("block_k", (8, 16, 64, 128), 16, "steps of k per shared tile"),
            Parameter("thread_m", (2, 3, 4, 6, 8, 12, 16), 8, "rows of the product per thread"),
            Parameter("thread_n", (2, 3, 4, 6, 8), 8, "columns of the product per thread"),
        ),
        constraints=(
            SQUARE,
            Constraint(
                lambda c: (c["thread_m"], c["thread_n"]) in THREAD_TILES,
                "thread_m × thread_n = {thread_m}×{thread_n} is not one of "
                + ", ".join(f"{m}×{n}" for m, n in THREAD_TILES)
                + ".",
            ),
            THREADS,
        ),
        defaults=(
            Default(config=_config(64, 64, 4), dtypes=("float64",)),
            Default(config=_config(32, 64, 2), buckets=("small", "batched", *SKINNY)),
            Default(config=_config(64, 64, 4), dtypes=("float16", "bfloat16", "int8")),
            Default(config=_config(64, 64, 4), buckets=("medium",)),
            Default(config=_config(128, 64, 8), buckets=("large",)),
        ),
        arrange=_register_launch,
        shared_bytes=_scalar_bytes,
        accumulators=_thread_tile,
    ),
)

VECTORIZED: tuple[Kernel, ...] = (
    CudaKernel(
        name="vectorized",
        summary="Register tiles, with every load and store 16 bytes wide.",
        idea="Operands come from memory in runs of 16 bytes, and so do a thread's rows and columns from shared memory: "
        "a fourth of the load instructions for float32. A K-major operand is transposed on its way into shared memory. "
        "Rows begin at aligned addresses because the service pads them; unaligned rows and edges are moved element by "
        "element. Report 003 asserts alignment by a cast and needs sizes that divide.",
        origin="Report 003 (vectorized shared and global memory accesses: 128×128, BK 8, 8×8).",
        accuracy=OWN_ACCURACY,
        parameters=(
            Parameter("block_m", (32, 64, 128), 128, "rows of the product per thread block"),
            Parameter("block_n", (32, 64, 128), 128, "columns of the product per thread block"),
            Parameter("block_k", (8, 16, 32), 16, "steps of k per shared tile"),
            Parameter("thread_m", (4, 8), 8, "rows of the product per thread"),
            Parameter("thread_n", (4, 8), 8, "columns of the product per thread"),
        ),
        constraints=(
            SQUARE,
            Constraint(
                lambda c: c["thread_m"] == c["thread_n"],
                "thread_m and thread_n must be equal, not {thread_m} and {thread_n}.",
            ),
            THREADS,
        ),
        defaults=(Default(config=_config(64, 32, 4), buckets=("small", "batched", "medium", *SKINNY)),),
        arrange=_vector_launch,
        shared_bytes=_tile_bytes,
        accumulators=_thread_tile,
    ),
)
