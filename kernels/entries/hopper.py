"""Hopper's tensor cores, programmed by warpgroups: tiles come by bulk copies and are multiplied where they lie."""

from __future__ import annotations

from kernels.arrange import tiles
from kernels.buckets import SKINNY
from kernels.kernel import Boxes, Constraint, CudaKernel, Default, Kernel, Launch, Parameter, TileConfig
from kernels.numerics import OWN_ACCURACY, DTypeName, Problem

HOPPER = (9, 0)
WARPGROUP = 128  # threads
CONSUMERS = 2  # warpgroups of a block that multiply, 64 rows each
BLOCK_M = 64 * CONSUMERS
BOX = 64  # rows, of a box of 128 bytes
BOX_BYTES = BOX * 128
OUT_ROWS, OUT_BYTES = 16, 16 * 128  # of C: what a warp writes at once
OUT_BOXES = 2  # of each warp
BARRIER_BYTES = 8
LARGEST_SHARED_BYTES = 227 * 1024


def _shared_bytes(config: TileConfig, _dtype: DTypeName) -> int:
    """Stages, boxes of C on their way out, and two barriers for each stage."""
    stage = (CONSUMERS + config["block_n"] // BOX) * BOX_BYTES
    out = CONSUMERS * 4 * OUT_BOXES * OUT_BYTES
    return config["stages"] * (stage + 2 * BARRIER_BYTES) + out


def _resident_blocks(problem: Problem, config: TileConfig) -> Launch:
    """All tiles of the batch, which resident blocks share."""
    grid = (tiles(problem.m, BLOCK_M) * tiles(problem.n, config["block_n"]) * problem.batch, 1, 1)
    shared_bytes = _shared_bytes(config, problem.dtype)
    return Launch(grid, ((CONSUMERS + 1) * WARPGROUP, 1, 1), shared_bytes, resident=True, cluster=config["cluster"])


def _boxes(_problem: Problem) -> Boxes:
    """Of 16-bit elements, along or across k."""
    return Boxes(a=(BOX, 64), b=(BOX, 64), c=(OUT_ROWS, 64))


def _config(block_n: int, stages: int, cluster: int) -> TileConfig:
    return {"block_m": BLOCK_M, "block_n": block_n, "stages": stages, "cluster": cluster}


def _half(name: str, dtype: DTypeName) -> CudaKernel:
    return CudaKernel(
        name=name,
        summary=f"{dtype} on Hopper's tensor cores: bulk tensor copies, warpgroup instructions, resident blocks.",
        idea="An instruction of four warps multiplies 64 rows by up to 256 columns straight out of shared memory, so "
        "fragments take no registers and no load instructions. One thread of a block feeds it: the copy engine brings "
        "boxes of 64 rows by 128 bytes, permutes them against bank conflicts, fills what lies outside the matrices "
        "with zeros, and counts bytes on a barrier. Two warpgroups multiply 64 rows of the tile each and keep its sums "
        "in registers that the producer gave up. Blocks stay on their multiprocessor and go from tile to tile, so the "
        "next tile's boxes arrive while the last one's sums are stored. The two blocks of a cluster need the same "
        "columns of B: each copies half of them for both. Tiles that hold little of C come last and are cut short. "
        "float32 sums are rounded once.",
        origin="The warp-specialised persistent design of CUTLASS 3 for sm_90, and P. Shah's steps towards cuBLAS "
        "on an H100 (fast.cu, 2024).",
        accuracy={dtype: OWN_ACCURACY[dtype]},
        min_compute_capability=HOPPER,
        architecture_specific=True,
        parameters=(
            Parameter("block_m", (BLOCK_M,), BLOCK_M, "rows of the product per thread block"),
            Parameter("block_n", (64, 128, 192, 256), 256, "columns of the product per thread block"),
            Parameter("stages", (3, 4, 5, 6), 4, "tiles in shared memory: one multiplied, the others on their way"),
            Parameter("cluster", (1, 2), 2, "thread blocks below each other that share their tiles of B"),
        ),
        constraints=(
            Constraint(
                lambda c: _shared_bytes(c, dtype) <= LARGEST_SHARED_BYTES,
                "stages × block_n = {stages} × {block_n} must fit into shared memory.",
            ),
        ),
        defaults=(
            Default(config=_config(256, 4, 2), buckets=("large",)),
            Default(config=_config(128, 5, 2), buckets=("medium",)),
            Default(config=_config(64, 6, 1), buckets=("small", *SKINNY)),
        ),
        arrange=_resident_blocks,
        shared_bytes=_shared_bytes,
        accumulators=lambda config: config["block_n"] // 2,
        boxes=_boxes,
    )


HALF: tuple[Kernel, ...] = (_half("hopper_bf16", "bfloat16"), _half("hopper_fp16", "float16"))
