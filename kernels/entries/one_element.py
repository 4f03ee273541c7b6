"""One thread per element of the product or a few of a row, nothing shared between threads: what caches alone can do."""

from __future__ import annotations

from kernels.model.arrange import tile_grid
from kernels.model.entry.config import Constraint, Parameter, TileConfig
from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.launch_plan import Launch
from kernels.model.numerics import OWN_ACCURACY, Problem

_BLOCK_OF_THREADS = Constraint(
    lambda c: 32 <= c["block_m"] * c["block_n"] <= 1024,
    "block_m × block_n = {block_m} × {block_n} must be between 32 and 1024 threads.",
)
_ROWS, _COLUMNS = "rows of the product per thread block", "columns of the product per thread block"


def _one_thread_per_element(problem: Problem, config: TileConfig) -> Launch:
    rows, columns = config["block_m"], config["block_n"]
    return tile_grid(problem, (rows, columns), (columns, rows))


def _threads_down_a_column(problem: Problem, config: TileConfig) -> Launch:
    tile = config["block_m"], config["block_n"]
    return tile_grid(problem, tile, tile)


def _few_of_a_row(problem: Problem, config: TileConfig) -> Launch:
    rows, columns = config["block_m"], config["block_n"]
    return tile_grid(problem, (rows, columns), (columns // config["factor"], rows))


UNCOALESCED: tuple[Kernel, ...] = (
    CudaKernel(
        name="naive_uncoalesced",
        summary="One thread per element of the product, neighbouring threads on neighbouring rows.",
        idea="Each thread walks a row of A and a column of B. Threads of a warp share the column and read down a "
        "column of A, whose elements are a row apart: one load of the warp touches 32 sectors of 32 bytes and uses one "
        "element of each, and its writes scatter likewise. The arithmetic is that of the next rung. Report 003 "
        "measures a seventh of the next rung's speed and names the uncoalesced loads; kept for that comparison.",
        origin="Report 003 (MatmulXrow).",
        accuracy=OWN_ACCURACY,
        parameters=(
            Parameter("block_m", (8, 16, 32, 64, 128), 32, _ROWS),
            Parameter("block_n", (1, 2, 4, 8, 16, 32), 8, _COLUMNS),
        ),
        constraints=(_BLOCK_OF_THREADS,),
        arrange=_threads_down_a_column,
    ),
)

NAIVE: tuple[Kernel, ...] = (
    CudaKernel(
        name="naive",
        summary="One thread per element of the product, neighbouring threads on neighbouring columns.",
        idea="Each thread walks a row of A and a column of B. Threads of a warp share the row and read consecutive "
        "elements of B, so loads coalesce, but every operand element still comes from L2 or DRAM once per tile row.",
        origin="Reports 000 to 004 (naive, V1, MatmulYrow).",
        accuracy=OWN_ACCURACY,
        parameters=(
            Parameter("block_m", (1, 2, 4, 8, 16, 32), 8, _ROWS),
            Parameter("block_n", (8, 16, 32, 64, 128), 32, _COLUMNS),
        ),
        constraints=(_BLOCK_OF_THREADS,),
        arrange=_one_thread_per_element,
    ),
)

UNROLLED: tuple[Kernel, ...] = (
    CudaKernel(
        name="unrolled",
        summary="One thread per element, several steps of k per loop iteration.",
        idea="One comparison, one branch and one set of pointer updates serve `unroll` steps of k, and the loads of "
        "all these steps are in flight together. Traffic and arithmetic intensity are those of the rung before, and so "
        "is the limit: two loads per multiply-add. Report 001 gains 6 % at most for that reason, and loses a third at "
        "one size. The compiler unrolls `naive` by itself, so only `unroll` = 1 shows the plain loop.",
        origin="Report 001 (V2, loop unrolling; its factor is 4).",
        accuracy=OWN_ACCURACY,
        parameters=(
            Parameter("block_m", (4, 8, 16, 32), 4, _ROWS),
            Parameter("block_n", (16, 32, 64), 32, _COLUMNS),
            Parameter("unroll", (1, 2, 4, 8), 8, "steps of k per loop iteration"),
        ),
        constraints=(_BLOCK_OF_THREADS,),
        arrange=_one_thread_per_element,
    ),
)

COARSENED: tuple[Kernel, ...] = (
    CudaKernel(
        name="coarsened",
        summary="Each thread computes several elements of a row of the product.",
        idea="An element of A is loaded once for `factor` multiply-adds: factor + 1 loads, where `factor` threads of "
        "`naive` take 2 × factor. The `factor` sums are independent. Report 001 finds it two to six times slower than "
        "its baseline: its threads have adjacent columns, so a warp's loads of B are `factor` elements apart "
        "(`strided` = 0 keeps that), and its loop rereads the row of A for every column. Ours reads A once, and by "
        "default spaces a thread's columns by the block's threads, so that every load coalesces. The report suspects "
        "register spills; eight sums, the default, do not spill.",
        origin="Report 001 (V4, thread coarsening).",
        accuracy=OWN_ACCURACY,
        parameters=(
            Parameter("block_m", (8, 16, 32), 16, _ROWS),
            Parameter("block_n", (32, 64, 128, 256), 64, _COLUMNS),
            Parameter(
                "factor", (2, 4, 8), 8, "columns of the product per thread; a block has block_n / factor threads a row"
            ),
            Parameter("strided", (0, 1), 1, "1: a thread's columns are a block's row of threads apart; 0: adjacent"),
        ),
        constraints=(
            Constraint(
                lambda c: c["block_n"] >= 8 * c["factor"],
                "block_n = {block_n} must be at least 8 times factor = {factor}, or a row of threads is too short.",
            ),
            Constraint(
                lambda c: c["block_m"] * c["block_n"] <= 1024 * c["factor"],
                "block_m × block_n = {block_m} × {block_n} must be at most 1024 threads times factor = {factor}.",
            ),
        ),
        arrange=_few_of_a_row,
        accumulators=lambda config: config["factor"],
    ),
)
