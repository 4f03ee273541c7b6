"""float32 products from int8 products: fp32-accurate emulation on Hopper's tensor cores."""

from __future__ import annotations

from kernels.entries.hopper.cut import MAX_MULTIPROCESSORS, MIN_GAIN, WARP_ROWS, Cut
from kernels.entries.hopper.fp32 import HOPPER_FP32
from kernels.entries.hopper.tensor_cores import CONSUMERS, HOPPER, WARPGROUP
from kernels.model.entry.config import Parameter, TileConfig
from kernels.model.entry.fallback import UNUSUAL, Fallback
from kernels.model.groups import tiles
from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.launch_plan import Launch, Pass, Workspace
from kernels.model.numerics import Problem
from kernels.model.triangle import MULTIPROCESSORS

LINES, DEPTH, DIGITS = 128, 64, 4  # of a tile of digits: rows of A or columns of B, steps of k, bytes of an element
ELEMENT_BYTES = 4
SMALLEST_SIDE = 64  # a product with a shorter side is not worth its digits
LARGEST_DEPTH = 1 << 24  # steps of k whose logarithms and count fit into 64 bits
PLACES, BARRIER_BYTES = 12, 8  # of the ring: a digit of a tile of A and one of B in each
TARGET_BYTES = 1568  # of a consumer: where its sums go
PASS_THREADS, WARPS = 256, 8
VERDICT_BYTES = 128 + 2 * 256 * 4  # `Verdict` in emulated_layout.cuh
COUNTERS = MAX_MULTIPROCESSORS // 2 * LINES // WARP_ROWS  # words: of each warp of tiles that are cut
SUM_BYTES = 8  # of an element of C in a part of a tile
MAX_CUT_STEPS = 508  # of a tile that may be cut: `CHUNK` in emulated_ring.cuh
STRIP = 32  # rows or columns that a block of `emulated_lines` takes with the listed ones
MEASURED_ROWS, MEASURED_COLUMNS = 32, 512  # of a matrix as it is stored, for a block
SHARED_BYTES = PLACES * (2 * LINES * DEPTH + 2 * BARRIER_BYTES) + CONSUMERS * TARGET_BYTES

# Of a step and of a tile's end; and of a tile that is cut: until the last warp has stored, and for each further part.
# Seen on an H100.
STEP_CLOCKS, END_CLOCKS, CUT_CLOCKS, PART_CLOCKS = 1500, 3000, 13_000, 2500

# What operands cost that are not carried by digits: launches, and a pass over them. By median over shapes on an H100.
LAUNCHES_US, MEASURED_MB_A_US = 24.0, 2.5
# Operands of moderate spread (log-normal, σ = 1) take more products and listed rows: so many times as long as normal
# ones, and more by each step of k.
UNUSUAL_BASE, UNUSUAL_A_STEP = 1.4, 1 / 3000


def is_direct(problem: Problem) -> bool:
    """Whether it goes to the float32 kernel whole, without digits."""
    return min(problem.m, problem.n, problem.k) < SMALLEST_SIDE or problem.k >= LARGEST_DEPTH


def _items(problem: Problem) -> tuple[int, int]:
    """Matrices in A and in B."""
    return (problem.batch if problem.a_batched else 1), (problem.batch if problem.b_batched else 1)


def _cut(problem: Problem, config: TileConfig, multiprocessors: int) -> Cut:
    """The tiles, which are cut along k where there are few of them and that pays (emulated_cut.cuh)."""
    tall, across = tiles(problem.m, LINES * config["cluster"]), tiles(problem.n, LINES)
    return Cut(tall * across * problem.batch, multiprocessors // config["cluster"], tiles(problem.k, DEPTH))


def _clocks_in_parts(cut: Cut, parts: int) -> float:
    """Of a tile in so many parts, from its first step until the last part is added."""
    return tiles(cut.stages, parts) * STEP_CLOCKS + (CUT_CLOCKS + PART_CLOCKS * (parts - 1) if parts > 1 else 0)


def _parts(cut: Cut) -> int:
    """Of each tile."""
    is_worth_it = _clocks_in_parts(cut, cut.parts) < (1 - MIN_GAIN) * _clocks_in_parts(cut, 1)
    return cut.parts if is_worth_it and cut.stages <= MAX_CUT_STEPS else 1


def _usual_parts(problem: Problem, config: TileConfig) -> int:
    """Of each tile, on a usual device."""
    return 1 if is_direct(problem) else _parts(_cut(problem, config, MULTIPROCESSORS))


def sums_bytes(problem: Problem, config: TileConfig) -> int:
    """Of all parts of all tiles, where these are cut. No launch has more parts (`Launch.on`)."""
    parts = _usual_parts(problem, config)
    tiles_in_clusters = _cut(problem, config, MULTIPROCESSORS).tiles
    return tiles_in_clusters * config["cluster"] * parts * LINES * LINES * SUM_BYTES if parts > 1 else 0


def _clocks(problem: Problem, config: TileConfig, multiprocessors: int) -> float:
    """Of the product itself, with six products for each element."""
    cut = _cut(problem, config, multiprocessors)
    parts = _parts(cut)
    return tiles(cut.tiles * parts, cut.clusters) * (_clocks_in_parts(cut, parts) + END_CLOCKS)


def _line_blocks(problem: Problem) -> int:
    """Blocks of LINES lines each, in both operands."""
    items_a, items_b = _items(problem)
    return items_a * tiles(problem.m, LINES) + items_b * tiles(problem.n, LINES)


def _workspace(problem: Problem, config: TileConfig) -> Workspace:
    """The layout of `Findings` in emulated_layout.cuh: what the passes find, which starts as zero, digits, and sums of
    parts of tiles."""
    if is_direct(problem):
        return Workspace(0, 0)
    blocks, steps = _line_blocks(problem), tiles(problem.k, DEPTH)
    counts = tiles(sum(_items(problem)), 4) * 4
    zeroed = VERDICT_BYTES + blocks * LINES * (8 + 8 + 4) + 4 * (counts + COUNTERS)
    before = tiles(zeroed + 16 * blocks + 4 * blocks * LINES, 128) * 128
    whole = before + blocks * steps * DIGITS * LINES * DEPTH
    sums = sums_bytes(problem, config)
    return Workspace(whole + sums, zeroed, ("CUT",) if sums else ())


def _measured_blocks(rows: int, columns: int) -> int:
    return tiles(rows, MEASURED_ROWS) * tiles(columns, MEASURED_COLUMNS)


def _passes(problem: Problem, _config: TileConfig) -> tuple[Pass, ...]:
    """Measure lines, judge them, write digits; and behind the kernel multiply the lines that have none."""
    if is_direct(problem):
        return ()
    block = (PASS_THREADS, 1, 1)
    (items_a, items_b), (m, n, k) = _items(problem), (problem.m, problem.n, problem.k)
    measured = items_a * _measured_blocks(*((k, m) if problem.transpose_a else (m, k)))
    measured += items_b * _measured_blocks(*((n, k) if problem.transpose_b else (k, n)))
    blocks = _line_blocks(problem)
    strips = max(tiles(m, STRIP), tiles(n, STRIP)) * problem.batch
    return (
        Pass("emulated_measure", Launch((measured, 1, 1), block)),
        Pass("emulated_judge", Launch((tiles(blocks, WARPS), 1, 1), block)),
        Pass("emulated_split", Launch((blocks * tiles(k, DEPTH), 1, 1), block)),
        Pass("emulated_lines", Launch((strips, 1, 1), block, resident=True, each=2), behind=True),
    )


def _worth(problem: Problem) -> float:
    """The expected time relative to that for normal operands, if UNUSUAL of the products have operands of moderate
    spread."""
    return float((UNUSUAL_BASE + UNUSUAL_A_STEP * problem.k) ** UNUSUAL)


def _lost_us(problem: Problem) -> float:
    items_a, items_b = _items(problem)
    elements = (items_a * problem.m + items_b * problem.n) * problem.k
    return LAUNCHES_US + elements * ELEMENT_BYTES * 1e-6 / MEASURED_MB_A_US


def _resident_blocks(problem: Problem, config: TileConfig) -> Launch:
    cluster = config["cluster"]
    tall, across = tiles(problem.m, config["block_m"] * cluster), tiles(problem.n, config["block_n"])
    threads = (CONSUMERS + 1) * WARPGROUP
    blocks = tall * across * problem.batch
    parts, block = _usual_parts(problem, config), (threads, 1, 1)
    return Launch((blocks, 1, 1), block, SHARED_BYTES, resident=True, cluster=cluster, parts=parts, stacked=cluster)


FP32_EMULATED: tuple[Kernel, ...] = (
    CudaKernel(
        name="fp32_emulated",
        summary="float32 as sums of int8 products on Hopper's tensor cores: fp32-accurate emulation.",
        idea="Tensor cores multiply bytes some thirty times as fast as CUDA cores multiply float32, and add them "
        "without error. Rows of A and columns of B are scaled by a number each, a power of two times 1, 1.25, 1.5 or "
        "1.75, and rounded to 32-bit integers of four digits to base 256. Products of the first digits, added exactly "
        "and combined at the end, are the product. Six of them are as exact as float32 sums of ordinary data in the "
        "order of k, and eight as those of a library that adds a few parts of k. How many a tile takes follows from "
        "its rows and columns whose elements differ most in size, by arithmetic and geometric means: the geometric "
        "mean bounds from below what any element of the product can be compared with. The few rows and columns that "
        "ten do not carry, or with an infinity or a NaN, are multiplied in float32 after the others. If they are many, "
        "hopper_fp32 computes the whole product: that is decided on the device. One pass measures lines, one judges "
        "them, and one writes digits in the order in which the tensor cores read them, both operands K-major. Products "
        "with a side below 64 go straight to hopper_fp32.",
        origin="Ozaki's scheme (2012) on int8 tensor cores (Ootomo and others, 2024), fused in one kernel.",
        accuracy={"float32": "fp32"},
        arithmetic={"float32": "digits"},
        min_compute_capability=HOPPER,
        architecture_specific=True,
        emulated_with=("int8", 6),
        supports_dependent_launch=True,
        parameters=(
            Parameter("block_m", (LINES,), LINES, "rows of the product per thread block", compiled=False),
            Parameter("block_n", (LINES,), LINES, "columns of the product per thread block", compiled=False),
            Parameter("block_k", (DEPTH,), DEPTH, "steps of k per ring slot", compiled=False),
            Parameter("cluster", (1, 2), 1, "vertically adjacent thread blocks that share tiles of B's digits"),
            Parameter("min_products", (6, 7, 8, 10), 6, "fewest int8 products of a tile"),
        ),
        arrange=_resident_blocks,
        shared_bytes=lambda _config, _dtype: SHARED_BYTES,
        accumulators=lambda _config: 3 * LINES // 2,
        workspace=_workspace,
        passes=_passes,
        clocks=_clocks,
        fallback=Fallback(HOPPER_FP32[0], is_direct, _worth, lost_us=_lost_us),
    ),
)
