"""Tiles of the operands in shared memory, one thread per element of the product or a few of them."""

from __future__ import annotations

from kernels.model.arrange import tile_grid
from kernels.model.kernel import CudaKernel, Default, Kernel, Launch, Parameter, TileConfig
from kernels.model.numerics import DTYPES, OWN_ACCURACY, DTypeName, Problem

_TILE = Parameter("tile", (8, 16, 32), 32, "rows and columns of the square tile, and threads per side")


def _square_tile(problem: Problem, config: TileConfig) -> Launch:
    tile = config["tile"]
    return tile_grid(problem, (tile, tile), (tile, tile))


def _tiles_side_by_side(problem: Problem, config: TileConfig) -> Launch:
    tile = config["tile"]
    return tile_grid(problem, (tile, tile * config["thread_n"]), (tile, tile))


def _square_bytes(config: TileConfig, dtype: DTypeName) -> int:
    """Of one tile, with the longer rows of one that is turned on its way in; `square_tiles.cuh` has the reason."""
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
        idea="A block takes `thread_n` tiles of the product side by side. An element of A, once read from shared "
        "memory, meets that many elements of B, and A comes from memory so many times less often; so many more "
        "multiply-adds stand between two barriers. Reads of shared memory fall little, as A's are made four at a time "
        "anyway: 9 for 8 multiply-adds at two tiles, where `shared_tiled` has 10. Report 001 finds it slower than its "
        "tiles and blames occupancy. But its loop puts one tile of B after the other into the same place, with two "
        "barriers and a wait for memory each; and its blocks lie one tile apart, where each computes `thread_n` of "
        "them, so elements are computed that many times over, which fits its figures. Ours brings all tiles of B at "
        "once, between one pair of barriers, and computes each element once.",
        origin="Report 001 (V5, privatization; REG_TILE_SIZE 2 and 4).",
        accuracy=OWN_ACCURACY,
        parameters=(_TILE, Parameter("thread_n", (2, 4), 2, "tiles of the product, side by side, that share one of A")),
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
        summary="Square tiles in shared memory, the next ones loaded while the present ones are computed with.",
        idea="Each thread loads its elements of the next tiles into registers after the barrier, computes, and then "
        "puts them into shared memory: memory is not waited for while there is work. Four accumulators make four short "
        "chains of additions out of one. Traffic and shared memory reads are those of `shared_tiled`, so the gain is "
        "latency alone, and small where other blocks hide it already. Report 001's kernel loads the next elements, "
        "never uses them and loads them again, so what it gains over its V3 comes from elsewhere; ours uses them. It "
        "also lengthens every row of its tiles against bank conflicts (`padded` = 1), which none of these "
        "accesses has but those of a transposed operand, always padded here; rows of plain length let a thread read "
        "four elements of A at once.",
        origin="Report 001 (V6, the final kernel).",
        accuracy=OWN_ACCURACY,
        parameters=(
            _TILE,
            Parameter(
                "padded", (0, 1), 0, "1: rows of every shared tile are longer; 0: of a transposed operand's alone"
            ),
        ),
        # Of 1,024 threads none has registers for 64-bit sums and what is on its way.
        defaults=(Default(config={"tile": 16, "padded": 0}, dtypes=("float64",)),),
        arrange=_square_tile,
        shared_bytes=_pair_bytes,
        accumulators=lambda config: 4,
    ),
)
