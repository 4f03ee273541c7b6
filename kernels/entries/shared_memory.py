"""Tiles of the operands in shared memory, one thread per element of the product or a few of them."""

from __future__ import annotations

from kernels.model.arrange import tile_grid
from kernels.model.entry.config import Parameter, TileConfig
from kernels.model.kernel import CudaKernel, Default, Kernel
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTYPES, OWN_ACCURACY, DTypeName, Problem

_TILE = Parameter("tile", (8, 16, 32), 32, "rows and columns of the square tile, and threads per side")


def _square_tile(problem: Problem, config: TileConfig) -> Launch:
    tile = config["tile"]
    return tile_grid(problem, (tile, tile), (tile, tile))


def _tiles_side_by_side(problem: Problem, config: TileConfig) -> Launch:
    tile = config["tile"]
    return tile_grid(problem, (tile, tile * config["thread_n"]), (tile, tile))


def _square_bytes(config: TileConfig, dtype: DTypeName) -> int:
    """Of one tile, with the padded rows of one that is transposed on its way in; `square_tiles.cuh` has the reason."""
    tile, itemsize = config["tile"], DTYPES[dtype].accumulator_bytes
    padding = max(1, 128 // itemsize // tile)
    return tile * (tile + padding) * itemsize


def _pair_bytes(config: TileConfig, dtype: DTypeName) -> int:
    return 2 * _square_bytes(config, dtype)


SHARED: tuple[Kernel, ...] = (
    CudaKernel(
        name="shared_tiled",
        summary="Square tiles of both operands staged in shared memory.",
        idea="A block copies one tile of A and one of B into shared memory and each thread sums from there, so an "
        "element is read from device memory once per tile instead of once per thread: traffic falls by the tile size.",
        origin="Reports 000, 001 (V3), 002, 003 and 004 (levels 1 and 2).",
        accuracy=OWN_ACCURACY,
        parameters=(_TILE,),
        arrange=_square_tile,
        shared_bytes=_pair_bytes,
    ),
)

PRIVATIZED: tuple[Kernel, ...] = (
    CudaKernel(
        name="shared_tiled_privatized",
        summary="One shared tile of A serves several tiles of the product, whose sums each thread keeps in registers.",
        idea="A block takes `thread_n` adjacent tiles of the product. An element of A read from shared memory meets "
        "that many elements of B, so A comes from memory `thread_n` times less often, and two barriers enclose "
        "`thread_n` times as many multiply-adds. Shared memory reads fall little, as those of A are four wide anyway: "
        "9 for 8 multiply-adds with two tiles, where `shared_tiled` has 10. Report 001 finds it slower than its tiles "
        "and blames occupancy. But its loop loads one tile of B after the other into the same place, with two barriers "
        "and a wait for memory each; and its blocks are one tile apart while each computes `thread_n` of them, so "
        "every element is computed `thread_n` times, which fits its figures. Ours loads all tiles of B at once, "
        "between one pair of barriers, and computes each element once.",
        origin="Report 001 (V5, privatization; REG_TILE_SIZE 2 and 4).",
        accuracy=OWN_ACCURACY,
        parameters=(_TILE, Parameter("thread_n", (2, 4), 2, "adjacent tiles of the product that share one of A")),
        defaults=(
            Default(config={"tile": 16, "thread_n": 2}, dtypes=("float64",)),
            Default(config={"tile": 16, "thread_n": 4}, buckets=("medium", "large")),
        ),
        arrange=_tiles_side_by_side,
        shared_bytes=lambda config, dtype: (1 + config["thread_n"]) * _square_bytes(config, dtype),
        accumulators=lambda config: config["thread_n"],
    ),
)

PREFETCH: tuple[Kernel, ...] = (
    CudaKernel(
        name="shared_tiled_prefetch",
        summary="Square tiles in shared memory, the next ones loaded while the present ones are multiplied.",
        idea="Each thread loads its elements of the next tiles into registers after the barrier, computes, and then "
        "stores them to shared memory, so the latency of memory is hidden. Four accumulators make four short chains of "
        "additions out of one. Traffic and shared memory reads are those of `shared_tiled`, so the gain is latency "
        "alone, and small if other blocks hide it already. Report 001's kernel loads the next elements, never uses "
        "them and loads them again, so its gain over its V3 comes from elsewhere; ours uses them. The report also pads "
        "every row of its tiles against bank conflicts (`padded` = 1). Here only a transposed operand causes any, and "
        "it is always padded; unpadded rows let a thread read four elements of A at once.",
        origin="Report 001 (V6, the final kernel).",
        accuracy=OWN_ACCURACY,
        parameters=(
            _TILE,
            Parameter(
                "padded", (0, 1), 0, "1: rows of every shared tile are padded; 0: only those of a transposed operand"
            ),
        ),
        # With 1,024 threads a block, a thread has no registers for 64-bit sums and elements in flight.
        defaults=(Default(config={"tile": 16, "padded": 0}, dtypes=("float64",)),),
        arrange=_square_tile,
        shared_bytes=_pair_bytes,
        accumulators=lambda config: 4,
    ),
)
