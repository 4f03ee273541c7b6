"""Hopper's tensor cores, programmed by warp groups: TMA copies tiles, which are multiplied from shared memory."""

from __future__ import annotations

from functools import partial

from kernels.entries.hopper.cut import LARGEST_SHARED_BYTES, in_parts
from kernels.entries.hopper.tiles import BOX, GROUP_CONFIGS, OUT_ROWS, constraints, defaults, parameters, shared_bytes
from kernels.entries.hopper.waves import (
    ROW_BYTES,
    as_it_lies,
    clocks,
    group_tiles,
    inner,
    is_cut,
    sides,
    stages_of,
    workspace,
)
from kernels.model.edge import EDGE
from kernels.model.entry.boxes import Boxes
from kernels.model.entry.config import Parameter, TileConfig
from kernels.model.groups import Grouped, tile_count, tiles
from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTYPES, OWN_ACCURACY, AccuracyName, DTypeName, Problem
from kernels.model.scales import SCALE_DEPTH
from kernels.model.triangle import TriangleName, triangle_tiles

HOPPER = (9, 0)
WARPGROUP = 128  # threads
CONSUMERS = 2  # warp groups of a block that multiply, of 64 rows each, where it has 128 rows
# Of sums that are float32: of operands of 16 bits, in their own type or as they are; of 8-bit floats, in any.
FUSED_OUTPUTS: dict[DTypeName, dict[DTypeName, tuple[DTypeName, ...]]] = {
    "bfloat16": {"bfloat16": ("bfloat16", "float32")},
    "float16": {"float16": ("float16", "float32")},
    "float32": {"float32": ("float32",)},
    "float8_e4m3": {"float8_e4m3": ("float32", "bfloat16", "float16")},
}


def _triangle(problem: Problem, config: TileConfig) -> TriangleName | None:
    return "upper" if as_it_lies(problem, config) else "lower"


def _resident_blocks(problem: Problem, config: TileConfig) -> Launch:
    """All tiles of the batch, which resident blocks share."""
    m, n = sides(problem, config)
    count = tiles(m, config["block_m"]) * tiles(n, config["block_n"]) * problem.batch
    if problem.symmetric:
        count = triangle_tiles(problem, config["block_m"] * config["cluster"], config["block_n"])
    if problem.group_sizes:
        count = tile_count(problem, partial(group_tiles, config=config))
    room = LARGEST_SHARED_BYTES if problem.scale_columns else shared_bytes(config, problem.dtype)
    block = ((config["block_m"] // BOX + 1) * WARPGROUP, 1, 1)
    whole = Launch((count, 1, 1), block, room, resident=True, cluster=config["cluster"])
    return in_parts(whole, stages_of(problem)) if is_cut(problem, config) else whole


def _boxes(problem: Problem, config: TileConfig) -> Boxes:
    """Rows of 128 bytes. 16-bit operands may be K-major or MN-major, others only K-major, except for a B that comes
    from registers, in boxes of as many steps of k as one of A has, and of half as many columns if whole ones are no
    tile's."""
    depth, columns = (ROW_BYTES // DTYPES[dtype].itemsize for dtype in (problem.dtype, problem.product_dtype))
    of_registers = as_it_lies(problem, config)
    across = depth if config["block_m"] % depth == 0 else depth // 2
    return Boxes(
        a=(BOX, depth),
        b=(depth, across) if of_registers else (BOX, depth),
        c=(OUT_ROWS, columns),
        c_row=(1, columns) if problem.group_sizes else None,
        wanted=(False, not of_registers) if DTYPES[problem.dtype].itemsize != 2 else None,
        to_tf32=problem.dtype == "float32",
    )


def _stores(problem: Problem, config: TileConfig, output: DTypeName) -> bool:
    """Whatever type it is, unless Cᵀ is computed, whose boxes are of 32-bit elements."""
    return DTYPES[output].itemsize == 4 or not as_it_lies(problem, config)


def _sums(config: TileConfig) -> int:
    """Of a thread: its own of the tile, and two sets of partial ones if these are promoted."""
    columns = config["block_n"]
    if not config.get("promote"):
        return columns // 2
    return columns // 2 + {64: 64, 128: 128, 192: 96, 256: 64}[columns]


def _scales(problem: Problem, config: TileConfig) -> str | None:
    """A tile's columns, or half of 256, are to share a scale, or to have one each."""
    if not config.get("promote"):
        return "Block scales are for sums that are promoted: take promote=1, or leave it out."
    if config["block_n"] == 192 and problem.scale_columns == SCALE_DEPTH:
        return "Tiles of block_n=192 begin within a block of scales: take 64, 128 or 256."
    return None


def _warp_specialised(
    name: str,
    summary: str,
    idea: str,
    origin: str,
    accuracy: tuple[DTypeName, AccuracyName],
    own: tuple[Parameter, ...] = (),
) -> CudaKernel:
    """One source for five element types, which differ in an instruction and in how sums are stored. `own`: parameters
    that not all have."""
    dtype = accuracy[0]
    triangle = None if dtype == "float8_e4m3" else _triangle
    return CudaKernel(
        name=name,
        summary=summary,
        idea=idea,
        origin=origin,
        accuracy=dict([accuracy]),
        arithmetic={} if dtype == "int8" else {dtype: "tensor"},
        min_compute_capability=HOPPER,
        architecture_specific=True,
        parameters=(*parameters(dtype), *own),
        constraints=constraints(dtype),
        defaults=defaults(dtype, own, has_triangle=triangle is not None),
        arrange=_resident_blocks,
        workspace=workspace,
        shared_bytes=shared_bytes,
        accumulators=_sums,
        boxes=_boxes,
        inner=inner,
        clocks=clocks,
        triangle=triangle,
        supports_dependent_launch=True,
        fused_outputs=FUSED_OUTPUTS.get(dtype, {}),
        stores=_stores,
        fused_shared_bytes=LARGEST_SHARED_BYTES,
        scales=_scales if dtype == "float8_e4m3" else None,
        groups=Grouped((dtype,), group_tiles, GROUP_CONFIGS) if DTYPES[dtype].itemsize == 2 else None,
    )


DESIGN = "The warp-specialised persistent design of CUTLASS 3 for sm_90, and P. Shah's steps towards cuBLAS on an H100"


def _half(name: str, dtype: DTypeName) -> CudaKernel:
    return _warp_specialised(
        name,
        f"{dtype} on Hopper's tensor cores: TMA, warp group instructions, resident blocks.",
        "An instruction of four warps multiplies 64 rows by up to 256 columns straight out of shared memory, so "
        "fragments take no registers and no load instructions. One thread of a block feeds it: TMA brings boxes of 64 "
        "rows by 128 bytes, swizzles them against bank conflicts, fills what is outside the matrices with zeros, and "
        "counts bytes on a barrier. Two or three warp groups multiply 64 rows of the tile each and keep its sums in "
        "registers that the producer gave up. Blocks stay on their multiprocessor and go from tile to tile, so the "
        "next tile's boxes arrive while the last one's sums are stored. The two blocks of a cluster need the same "
        "columns of B: each copies half of them for both. Edge tiles that hold little of C come last and are cut "
        "short. float32 sums are rounded once; before that, alpha, C and a bias are added to them where a product has "
        "these. Rows of A may have groups, each with a matrix of its own: resident blocks find the group of a tile in "
        "a table. A box of A may reach into the next group, whose rows are then multiplied and not stored: where a "
        "group ends within a box of C, its rows are stored one by one.",
        f"{DESIGN} (fast.cu, 2024).",
        (dtype, OWN_ACCURACY[dtype]),
    )


HALF: tuple[Kernel, ...] = (_half("hopper_bf16", "bfloat16"), _half("hopper_fp16", "float16"))
INT8: tuple[Kernel, ...] = (
    _warp_specialised(
        "hopper_int8",
        "int8 on Hopper's tensor cores, exact; an MN-major B is transposed only on its way into registers.",
        "The source of `hopper_bf16` with another instruction: a box holds 128 steps of k instead of 64, so a tile of "
        "the same bytes is twice the work. For bytes the instruction reads only K-major operands from shared memory, "
        "but its first operand may come from registers. So for an MN-major B, as in a plain A·B, Cᵀ = Bᵀ·Aᵀ is "
        "computed, as in `hopper_tf32`: a warp reads 16-bit pairs of B's rows of k transposed, and picks the bytes of "
        "two such pairs into each register. An MN-major A is transposed first, in chunks of 16 bytes at the memory's "
        "speed, within the kernel's time. Sums are int32 and wrap, and are stored as they are.",
        f"{DESIGN} (fast.cu, 2024); cuBLAS, too, is fast for int8 only if K-major.",
        ("int8", "exact"),
    ),
)
TF32: tuple[Kernel, ...] = (
    _warp_specialised(
        "hopper_tf32",
        "float32 on Hopper's tensor cores, rounded to TF32 by TMA; B is never transposed in memory.",
        "The source of `hopper_bf16` with another instruction: a box holds 32 steps of k instead of 64. The tensor "
        "cores drop the lower 13 bits of an operand. That truncation would make all elements too small, and the errors "
        "of a sum add up; so TMA rounds each element as it copies it, without a pass over the operands. For 32 bits "
        "the instruction reads only K-major operands from shared memory, but its first operand may come from "
        "registers. So for an MN-major B, as in a plain A·B, Cᵀ = Bᵀ·Aᵀ is computed, and threads fill registers from "
        "B's rows of k: tiles are then block_n rows by block_m columns, and the blocks of a cluster share A's. An "
        "MN-major A is transposed first, within the kernel's time. It is never chosen unless the caller asks for the "
        "accuracy `tf32` or `bf16`, or for it by name.",
        f"{DESIGN} (fast.cu, 2024); rounding by the tensor map as in CUTLASS 3.",
        ("float32", "tf32"),
        (EDGE,),
    ),
)
FP8: tuple[Kernel, ...] = (
    _warp_specialised(
        "hopper_fp8",
        "8-bit floats on Hopper's tensor cores: K-major operands, partial sums promoted to float32.",
        "The source of `hopper_int8` with another instruction and float32 sums. The tensor cores keep about 14 bits of "
        "a sum and truncate the rest, an error that grows with k. With `promote` their sums end with each 128 steps of "
        "k, and threads add them up in float32 while the tensor cores fill the next. MN-major operands are transposed "
        "first, within the kernel's time. Without `promote`, as in `cublas_fp8_fast`, B needs no transpose. Block "
        "scales, for each row of A and 128 steps of k, and each column of B or 128 of them, multiply promoted sums.",
        f"{DESIGN} (fast.cu, 2024); promotion from DeepSeek-V3's technical report (2024) and DeepGEMM.",
        ("float8_e4m3", "fp8"),
        (Parameter("promote", (0, 1), 1, "1: partial sums of each 128 steps of k are added in float32"),),
    ),
)
