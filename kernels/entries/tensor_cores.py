"""Tensor cores, programmed by warps: 16-bit operands, sums in float32."""

from __future__ import annotations

from kernels.model.arrange import tile_grid
from kernels.model.buckets import SKINNY
from kernels.model.entry.config import Constraint, Parameter, TileConfig
from kernels.model.kernel import CudaKernel, Default, Kernel
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTYPES, OWN_ACCURACY, DTypeName, Problem

FRAGMENT = 16  # rows, columns and steps of one matrix instruction
WARP = 32  # threads
ELEMENT_BYTES = DTYPES["float16"].itemsize
SUM_BYTES = DTYPES["float16"].accumulator_bytes
PADDING_BYTES = 16  # of a row in shared memory


def _warps(config: TileConfig) -> int:
    return config["block_m"] * config["block_n"] // (config["warp_m"] * config["warp_n"])


def _has_one_fragment(config: TileConfig) -> bool:
    return config["warp_m"] == config["warp_n"] == FRAGMENT


def _shared_bytes(config: TileConfig, _dtype: DTypeName) -> int:
    """Tiles of every stage, in the longer of their two orders; at the end the same place holds each warp's sums."""
    row_bytes = config["block_k"] * ELEMENT_BYTES + PADDING_BYTES
    tiles = config["stages"] * (config["block_m"] + config["block_n"]) * row_bytes
    sums = _warps(config) * FRAGMENT * (config["warp_n"] * SUM_BYTES + PADDING_BYTES)
    return max(tiles, sums)


def _warp_tiles(problem: Problem, config: TileConfig) -> Launch:
    tile = config["block_m"], config["block_n"]
    return tile_grid(problem, tile, (_warps(config) * WARP, 1), shared_bytes=_shared_bytes(config, problem.dtype))


def _config(block: tuple[int, int, int], warp: tuple[int, int], stages: int) -> TileConfig:
    names = ("block_m", "block_n", "block_k", "warp_m", "warp_n", "stages")
    return dict(zip(names, (*block, *warp, stages), strict=True))


WMMA: tuple[Kernel, ...] = (
    CudaKernel(
        name="tensor_wmma",
        summary="Tensor cores through warp-level matrix instructions (WMMA), fed by a pipeline of shared tiles.",
        idea="One instruction of a warp multiplies two 16×16 fragments of 16-bit floats and adds to float32 sums: 4096 "
        "multiply-adds where the CUDA cores of the rungs before do 32. Supplying operands becomes the limit. Report "
        "003 reads fragments straight from device memory, one 16×16 result a warp, so each element is fetched again "
        "for every 16 rows or columns, and only takes multiples of 16. Here asynchronous copies keep stages - 1 tiles "
        "in flight into shared memory, with rows padded against bank conflicts; a warp holds up to 4×4 fragments and "
        "uses each fragment it reads four times; elements past the edges are zero, so any size works. The report's "
        "arrangement is the config with warps of a single fragment. float16 needs compute capability 7.0, bfloat16 "
        "8.0. Sums are rounded once, to the operands' type.",
        origin="Report 003 (TensorCore by WMMA, m16n16k16).",
        accuracy={dtype: OWN_ACCURACY[dtype] for dtype in ("float16", "bfloat16")},
        arithmetic={"float16": "tensor", "bfloat16": "tensor"},
        min_compute_capability=(7, 0),
        dtype_compute_capability={"bfloat16": (8, 0)},
        parameters=(
            Parameter("block_m", (64, 128), 128, "rows of the product per thread block"),
            Parameter("block_n", (64, 128, 256), 128, "columns of the product per thread block"),
            Parameter("block_k", (16, 32, 64), 32, "steps of k per shared tile"),
            Parameter("warp_m", (16, 32, 64), 64, "rows of the product per warp"),
            Parameter("warp_n", (16, 32, 64), 64, "columns of the product per warp"),
            Parameter("stages", (3, 4), 3, "tiles in shared memory: one multiplied, the others in flight"),
        ),
        constraints=(
            Constraint(
                lambda c: c["warp_n"] == c["warp_m"] or (c["warp_m"], c["warp_n"]) == (64, 32),
                "A warp's tile of {warp_m} × {warp_n} must be 16 × 16, 32 × 32, 64 × 32 or 64 × 64.",
            ),
            Constraint(
                lambda c: c["block_n"] in (c["block_m"], 2 * c["block_m"]),
                "block_n = {block_n} must be block_m = {block_m} or twice that.",
            ),
            Constraint(
                lambda c: _warps(c) in ((32,) if _has_one_fragment(c) else (4, 8)),
                "A block of {block_m} × {block_n} in warps of {warp_m} × {warp_n} must have 4 or 8 warps, or 32 "
                "with one 16 × 16 fragment each.",
            ),
            Constraint(
                lambda c: (c["block_k"] == FRAGMENT) == _has_one_fragment(c),
                "block_k = {block_k} must be 16 for warps of one 16 × 16 fragment, and more for others.",
            ),
            Constraint(
                lambda c: c["block_k"] * c["stages"] <= 192,
                "block_k × stages = {block_k} × {stages} must be at most 192 steps of k in shared memory.",
            ),
        ),
        defaults=(
            Default(config=_config((128, 128, 64), (64, 64), 3), buckets=("large",), min_compute_capability=(8, 0)),
            Default(config=_config((128, 128, 32), (64, 64), 4), buckets=("large",), min_compute_capability=(8, 0)),
            Default(config=_config((64, 128, 64), (64, 32), 3), buckets=("medium",), min_compute_capability=(8, 0)),
            Default(
                config=_config((64, 64, 64), (32, 32), 3),
                buckets=("small", "batched", *SKINNY),
                min_compute_capability=(8, 0),
            ),
            Default(config=_config((64, 64, 32), (32, 32), 3), buckets=("small", "batched", *SKINNY)),
        ),
        arrange=_warp_tiles,
        shared_bytes=_shared_bytes,
        accumulators=lambda config: config["warp_m"] * config["warp_n"] // WARP,
    ),
)
