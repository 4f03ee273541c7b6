"""float32 products out of int8 products: fp32-accurate emulation on Hopper's tensor cores."""

from __future__ import annotations

from kernels.arrange import tiles
from kernels.entries.hopper import CONSUMERS, HOPPER, WARPGROUP
from kernels.kernel import CudaKernel, Kernel, Launch, Parameter, Pass, TileConfig, Workspace
from kernels.numerics import Problem

LINES, DEPTH, DIGITS = 128, 64, 4  # of a tile of digits: rows of A or columns of B, steps of k, bytes of an element
SMALLEST_SIDE = 64  # a product with a shorter side is multiplied on CUDA cores
PLACES, BARRIER_BYTES = 12, 8  # of the ring: a digit of a tile of A and one of B in each
TARGET_BYTES = 1568  # of a consumer: where its sums go
PASS_THREADS = 256
MEASURED_ROWS, MEASURED_COLUMNS = 32, 512  # of a matrix as it is stored, for a block
SHARED_BYTES = PLACES * (2 * LINES * DEPTH + 2 * BARRIER_BYTES) + CONSUMERS * TARGET_BYTES


def is_direct(problem: Problem) -> bool:
    """Whether it goes to CUDA cores whole, without digits."""
    return min(problem.m, problem.n, problem.k) < SMALLEST_SIDE


def _items(problem: Problem) -> tuple[int, int]:
    """Matrices in A and in B."""
    return (problem.batch if problem.a_batched else 1), (problem.batch if problem.b_batched else 1)


def _line_blocks(problem: Problem) -> int:
    """Of LINES lines each, in both operands."""
    items_a, items_b = _items(problem)
    return items_a * tiles(problem.m, LINES) + items_b * tiles(problem.n, LINES)


def _workspace(problem: Problem, _config: TileConfig) -> Workspace:
    """As `Findings` in emulated_layout.cuh lays it out: what passes find, which starts as zero, and digits."""
    if is_direct(problem):
        return Workspace(0, 0)
    blocks, steps = _line_blocks(problem), tiles(problem.k, DEPTH)
    of_lines = blocks * LINES * (8 + 4)
    of_steps = sum(_items(problem)) * steps * DEPTH * 4
    zeroed = of_lines + of_steps + 4 * 4 * problem.batch + 4 * blocks
    before = tiles(zeroed + 4 * blocks, 128) * 128
    return Workspace(before + blocks * steps * DIGITS * LINES * DEPTH, zeroed)


def _measured_blocks(rows: int, columns: int) -> int:
    return tiles(rows, MEASURED_ROWS) * tiles(columns, MEASURED_COLUMNS)


def _passes(problem: Problem, _config: TileConfig) -> tuple[Pass, ...]:
    """Peaks of lines, digits, and the tiles that are not made of digits."""
    block = (PASS_THREADS, 1, 1)
    product_tiles = tiles(problem.m, LINES) * tiles(problem.n, LINES) * problem.batch
    plain = Pass("emulated_plain", Launch((product_tiles, 1, 1), block, resident=True))
    if is_direct(problem):
        return (plain,)
    (items_a, items_b), (m, n, k) = _items(problem), (problem.m, problem.n, problem.k)
    measured = items_a * _measured_blocks(*((k, m) if problem.transpose_a else (m, k)))
    measured += items_b * _measured_blocks(*((n, k) if problem.transpose_b else (k, n)))
    split = _line_blocks(problem) * tiles(k, DEPTH)
    return (
        Pass("emulated_measure", Launch((measured, 1, 1), block)),
        Pass("emulated_split", Launch((split, 1, 1), block)),
        plain,
    )


def _resident_blocks(problem: Problem, config: TileConfig) -> Launch:
    cluster = config["cluster"]
    tall, across = tiles(problem.m, config["block_m"] * cluster), tiles(problem.n, config["block_n"])
    threads = (CONSUMERS + 1) * WARPGROUP
    blocks = tall * across * problem.batch
    return Launch((blocks, 1, 1), (threads, 1, 1), SHARED_BYTES, resident=True, cluster=cluster)


FP32_EMULATED: tuple[Kernel, ...] = (
    CudaKernel(
        name="fp32_emulated",
        summary="float32 as sums of int8 products on Hopper's tensor cores: fp32-accurate emulation.",
        idea="Tensor cores multiply bytes some thirty times as fast as CUDA cores multiply float32, and add them "
        "without error. Rows of A and columns of B are scaled by a number each, a power of two or some quarters "
        "more, rounded to integers of 32 bits, and these written in four digits to base 256; products of the first "
        "digits, added up exactly and put together in the end, are the product. Six of them are as right as float32 "
        "sums of ordinary data in the order of k, eight as those of a library that adds up parts of k, and ten as any; "
        "where elements of a row or column differ much in size a tile takes eight or ten, and where that would "
        "not do, or there is an infinity or a NaN, CUDA cores multiply it in float32. Two passes before find each"
        " line's largest element and write digits in the order in which the tensor cores read them, B's "
        "transposed, since they want both operands along k. Products with a side below 64 are multiplied on CUDA "
        "cores alone.",
        origin="Ozaki's scheme (2012) on int8 tensor cores (Ootomo and others, 2024), fused in one kernel.",
        accuracy={"float32": "fp32"},
        min_compute_capability=HOPPER,
        architecture_specific=True,
        made_of=("int8", 6),
        parameters=(
            Parameter("block_m", (LINES,), LINES, "rows of the product per thread block", compiled=False),
            Parameter("block_n", (LINES,), LINES, "its columns per thread block", compiled=False),
            Parameter("block_k", (DEPTH,), DEPTH, "steps of k in a place of the ring", compiled=False),
            Parameter("cluster", (1, 2), 1, "thread blocks below each other that share their tiles of B's digits"),
            Parameter("least", (6, 7, 8, 10), 6, "int8 products that a tile takes at the least"),
        ),
        arrange=_resident_blocks,
        shared_bytes=lambda _config, _dtype: SHARED_BYTES,
        accumulators=lambda _config: 3 * LINES // 2,
        workspace=_workspace,
        passes=_passes,
    ),
)
