"""Shared tiles shallow along k, and several rows of one column in the registers of a thread."""

from __future__ import annotations

from kernels.model.arrange import tile_grid
from kernels.model.buckets import SKINNY
from kernels.model.entry.config import Constraint, Parameter, TileConfig
from kernels.model.kernel import CudaKernel, Default, Kernel
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTYPES, OWN_ACCURACY, DTypeName, Problem


def _column_of_rows(problem: Problem, config: TileConfig) -> Launch:
    rows, columns = config["block_m"], config["block_n"]
    return tile_grid(problem, (rows, columns), (columns, rows // config["thread_m"]))


def _shared_bytes(config: TileConfig, dtype: DTypeName) -> int:
    """A tile of A and one of B, each row padded by 16 bytes; `register_tiled_rows.cu` has the reason."""
    sides = config["block_m"] + config["block_n"]
    return config["block_k"] * (sides * DTYPES[dtype].accumulator_bytes + 2 * 16)


REGISTER_ROWS: tuple[Kernel, ...] = (
    CudaKernel(
        name="register_tiled_rows",
        summary="Each thread keeps several rows of one column of the product in registers.",
        idea="With thread_m results a thread, as many threads cover a larger tile, and traffic falls with its sides. "
        "Tiles are only block_k deep, so that few threads fill them in a few loads. An element of B is read from "
        "shared memory once for thread_m multiply-adds, and A's are broadcasts read four at a time: at 8 rows, 3 reads "
        "for 8 multiply-adds, where `shared_tiled` needs 5 for 4. A is still not reused inside a thread: the next rung "
        "adds columns. Report 003 measures 2.9 times the speed of its tiles.",
        origin="Report 003 (improved 1D block tiling: 64×64, BK 8, TM 8).",
        accuracy=OWN_ACCURACY,
        parameters=(
            Parameter("block_m", (32, 64, 128), 64, "rows of the product per thread block"),
            Parameter("block_n", (32, 64, 128), 64, "columns of the product per thread block"),
            Parameter("block_k", (8, 16), 8, "steps of k per shared tile"),
            Parameter("thread_m", (4, 8, 16), 8, "rows of the product per thread"),
        ),
        constraints=(
            Constraint(
                lambda c: c["block_m"] * c["block_n"] <= 1024 * c["thread_m"],
                "block_m × block_n = {block_m} × {block_n} must be at most 1024 threads times thread_m = {thread_m}.",
            ),
            Constraint(
                lambda c: all(c["block_k"] * c["thread_m"] % c[side] == 0 for side in ("block_m", "block_n")),
                "block_k × thread_m = {block_k} × {thread_m} must be a multiple of block_m = {block_m} and of "
                "block_n = {block_n}, so that all threads stage equally many elements.",
            ),
        ),
        # Small tiles if large ones would leave multiprocessors idle.
        defaults=(
            Default(
                config={"block_m": 32, "block_n": 32, "block_k": 16, "thread_m": 4},
                buckets=("small", "batched", *SKINNY),
            ),
        ),
        arrange=_column_of_rows,
        shared_bytes=_shared_bytes,
        accumulators=lambda config: config["thread_m"],
    ),
)
