"""Tensor cores for float64, programmed by warps."""

from __future__ import annotations

import itertools
import math

from kernels.model.arrange import tile_grid
from kernels.model.buckets import SKINNY, BucketName
from kernels.model.edge import EDGE, core, edge_clocks
from kernels.model.entry.config import Constraint, Parameter, TileConfig
from kernels.model.groups import tiles
from kernels.model.kernel import CudaKernel, Default
from kernels.model.launch_plan import Launch, Workspace
from kernels.model.numerics import OWN_ACCURACY, DTypeName, Problem
from kernels.model.triangle import TriangleName, triangle_tiles

RESIDENT = Parameter("resident", (0, 1), 0, "1: blocks stay, and split an incomplete wave along k")
WARP = 32  # threads
ELEMENT_BYTES = 8
PADDING = 4  # elements, of a line in shared memory
SHAPES = ((128, 128, 64), (128, 64, 64), (128, 64, 32), (64, 64, 32))  # rows, columns; rows of a warp's tile
WARP_N = 32
WARPS = 8  # of 64 × 32 sums, that a multiprocessor's registers are enough for
NOTES_BYTES = 160  # what resident blocks know of their tiles
SHORTEST = 8  # stages of a tile's part
MULTIPROCESSORS = 192  # no device has more
MULTIPLY_ADDS = 128  # of a multiprocessor's tensor cores in a clock
# Measured on an H200: how much longer an element takes, by those of a tile, and resident blocks over others.
SLOWER = {128 * 128: 1.0, 128 * 64: 1.1, 64 * 64: 1.18}
STAYING, SHARING_CLOCKS = 1.035, 14_000
MIN_STAGES = 32  # of k, for blocks to stay: less is lost in handing over sums


def _warps(config: TileConfig) -> int:
    return config["block_m"] * config["block_n"] // (config["warp_m"] * config["warp_n"])


def _shared_bytes(config: TileConfig, _dtype: DTypeName) -> int:
    """Tiles of every stage, in the longer of their two orders; what resident blocks know."""
    line = config["block_k"] + PADDING
    stage = (config["block_m"] + config["block_n"]) * line * ELEMENT_BYTES
    return config["stages"] * stage + config["resident"] * NOTES_BYTES


def _triangle(_problem: Problem, config: TileConfig) -> TriangleName | None:
    """By resident blocks, whose tiles are square."""
    return "lower" if config["resident"] else None


def _tiles(problem: Problem, config: TileConfig) -> int:
    if problem.symmetric and _triangle(problem, config):
        return triangle_tiles(problem, config["block_m"], config["block_n"])
    return tiles(problem.m, config["block_m"]) * tiles(problem.n, config["block_n"]) * problem.batch


def _warp_tiles(problem: Problem, config: TileConfig) -> Launch:
    """A block for each tile, or resident blocks that share all tiles of the batch."""
    tile, block = (config["block_m"], config["block_n"]), (_warps(config) * WARP, 1)
    shared_bytes = _shared_bytes(config, problem.dtype)
    if not config["resident"]:
        return tile_grid(problem, tile, block, shared_bytes=shared_bytes)
    return Launch(
        (_tiles(problem, config), 1, 1),
        (*block, 1),
        shared_bytes,
        resident=True,
        parts=max(problem.k // (SHORTEST * config["block_k"]), 1),
    )


def _workspace(problem: Problem, config: TileConfig) -> Workspace:
    """Sums of the pieces of tiles that are cut: fewer than tiles and blocks."""
    if not config["resident"]:
        return Workspace(0, 0)
    pieces = MULTIPROCESSORS + min(_tiles(problem, config), MULTIPROCESSORS)
    return Workspace(pieces * config["block_m"] * config["block_n"] * ELEMENT_BYTES, 0)


def _inner(problem: Problem, config: TileConfig) -> Problem:
    return core(problem, config, (config["block_m"], config["block_n"]))


def _clocks(problem: Problem, config: TileConfig, multiprocessors: int) -> float:
    """Waves of as many tiles as fit, at the rate of the tensor cores. Resident blocks share the last one."""
    block_m, block_n = config["block_m"], config["block_n"]
    count, each = _tiles(_inner(problem, config), config), WARPS // _warps(config)
    wave = each * block_m * block_n * problem.k / MULTIPLY_ADDS
    edge = edge_clocks(problem, config, (block_m, block_n))
    if not config["resident"]:
        return tiles(count, multiprocessors * each) * wave * SLOWER[block_m * block_n] + edge
    if problem.k < MIN_STAGES * config["block_k"]:
        return math.inf
    return count / multiprocessors * wave * STAYING + SHARING_CLOCKS + edge


def _config(shape: tuple[int, int, int], ahead: int, stages: int, edge: int, resident: int) -> TileConfig:
    block_m, block_n, warp_m = shape
    return {
        "block_m": block_m,
        "block_n": block_n,
        "block_k": 16,
        "warp_m": warp_m,
        "warp_n": WARP_N,
        "step": 8,
        "ahead": ahead,
        "stages": stages,
        "edge": edge,
        "resident": resident,
    }


def _defaults(shape: tuple[int, int, int], ahead: int, stages: int, *buckets: BucketName) -> tuple[Default, ...]:
    staying = RESIDENT.values if shape == SHAPES[0] else (0,)
    return tuple(
        Default(config=_config(shape, ahead, stages, edge, resident), buckets=buckets)
        for edge, resident in itertools.product(EDGE.values, staying)
    )


TENSOR_FP64: tuple[CudaKernel, ...] = (
    CudaKernel(
        name="tensor_fp64",
        summary="Tensor cores for float64 through warp-level matrix instructions, fed by a pipeline of shared tiles.",
        idea="An instruction of a warp multiplies 16 rows by 8 columns over 8 steps of k, each step rounded like a "
        "multiply-add of float64, at twice the speed of the CUDA cores. A warp keeps 64×32 sums, so shared memory is "
        "busy half of the time. Asynchronous copies bring tiles as they are stored, 16 bytes at a time, or 8 if rows "
        "begin at odd elements: no pitch leaves the fast path. They are interleaved with the instructions that "
        "multiply, whose operands are read from shared memory well before, so that neither copies nor barriers stall "
        "the tensor cores. A sum over k has no order, so each lane takes two neighbouring steps, rows and columns: all "
        "its reads of shared memory are 16 bytes wide, free of bank conflicts, and its part of C is written straight "
        "from registers. The first operand of the instruction is chosen so that elements are read into the registers "
        "where it needs them. At the edges, nothing outside the product is copied or multiplied. If a last wave of "
        "tiles would be mostly empty, blocks stay and split its tiles along k. GPUs without fast float64 run it "
        "slowly, as they do all of float64.",
        origin="The warp-level float64 instructions of compute capability 8.0 and 9.0, known from CUTLASS; relabelling "
        "k so that reads are wide is common practice. Stream-K (Osama and others, 2023).",
        accuracy={"float64": OWN_ACCURACY["float64"]},
        arithmetic={"float64": "tensor"},
        min_compute_capability=(8, 0),
        parameters=(
            Parameter("block_m", (64, 128), 128, "rows of the product per thread block"),
            Parameter("block_n", (64, 128), 128, "columns of the product per thread block"),
            Parameter("block_k", (16, 32), 16, "steps of k per shared tile"),
            Parameter("warp_m", (32, 64), 64, "rows of the product per warp"),
            Parameter("warp_n", (WARP_N,), WARP_N, "columns of the product per warp"),
            Parameter("step", (8, 16), 8, "steps of k per instruction"),
            Parameter("ahead", (1, 2), 2, "slabs of rows read before they are multiplied"),
            Parameter("stages", (3, 4), 4, "tiles in shared memory: one multiplied, the others in flight"),
            EDGE,
            RESIDENT,
        ),
        constraints=(
            Constraint(
                lambda c: (c["block_m"], c["block_n"], c["warp_m"]) in SHAPES,
                "A block of {block_m} × {block_n} in warps of {warp_m} rows must be 128 × 128 in 64, 128 × 64 in 64 or "
                "32, or 64 × 64 in 32.",
            ),
            Constraint(
                lambda c: c["block_k"] >= 2 * c["step"],
                "block_k = {block_k} must be at least twice step = {step}, as slabs alternate in registers.",
            ),
            Constraint(
                lambda c: c["step"] * c["ahead"] <= 16,
                "step × ahead = {step} × {ahead} must be at most 16, for the registers that slabs take.",
            ),
            Constraint(
                lambda c: c["block_k"] * c["stages"] <= 96,
                "block_k × stages = {block_k} × {stages} must be at most 96 steps of k in shared memory.",
            ),
            Constraint(
                lambda c: (
                    not c["resident"]
                    or (c["block_m"], c["block_n"], c["block_k"], c["step"], c["ahead"]) == (128, 128, 16, 8, 2)
                ),
                "resident = {resident} must be 0 except for tiles of 128 × 128 × 16 with step 8 and ahead 2.",
            ),
        ),
        defaults=(
            *_defaults(SHAPES[0], 2, 3, "large", "medium"),
            *_defaults(SHAPES[1], 2, 3, "large"),
            *_defaults(SHAPES[3], 1, 3, "medium"),
            *_defaults(SHAPES[3], 2, 4, "small", "batched", *SKINNY),
        ),
        arrange=_warp_tiles,
        shared_bytes=_shared_bytes,
        inner=_inner,
        clocks=_clocks,
        triangle=_triangle,
        accumulators=lambda config: config["warp_m"] * config["warp_n"] // WARP,
        workspace=_workspace,
    ),
)
