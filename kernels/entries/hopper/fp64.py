"""float64 on Hopper's tensor cores, fed by TMA."""

from __future__ import annotations

from kernels.entries.hopper.tensor_cores import HOPPER, WARPGROUP
from kernels.entries.hopper.tiles import BARRIER_BYTES, OUT_BOXES
from kernels.model.entry.boxes import Boxes
from kernels.model.entry.config import Parameter, TileConfig
from kernels.model.groups import tiles
from kernels.model.kernel import CudaKernel, Default
from kernels.model.launch_plan import Launch
from kernels.model.numerics import OWN_ACCURACY, DTypeName, Problem

WARP, WARPS = 32, 8  # threads; warps that multiply
ELEMENT_BYTES = 8
BLOCK_N = 128
BOX, GROUP = 16, 8  # elements in a row of a box; rows of C that a warp stores at once
BLOCK_K, STEP, STAGES = 32, 16, 3
MULTIPLY_ADDS = 128  # of a multiprocessor's tensor cores in a clock
# In which the tensor cores wait: of each tile, and of each of its rows, whose sums are stored.
TILE_CLOCKS, ROW_CLOCKS = 1_500, 27
SLOWER = {64: 1.004, 112: 1.004}  # times as many clocks for the same work in tiles of these rows (fitted on an H100)
ROWS = (64, 80, 96, 112, 128, 144)


def _shared_bytes(config: TileConfig, _dtype: DTypeName) -> int:
    """Stages with two barriers each, and boxes of C on their way out."""
    stage = (config["block_m"] + config["block_n"]) * config["block_k"] * ELEMENT_BYTES
    return config["stages"] * (stage + 2 * BARRIER_BYTES) + WARPS * OUT_BOXES * GROUP * BOX * ELEMENT_BYTES


def _tiles(problem: Problem, config: TileConfig) -> int:
    return tiles(problem.m, config["block_m"]) * tiles(problem.n, config["block_n"]) * problem.batch


def _resident_blocks(problem: Problem, config: TileConfig) -> Launch:
    """All tiles of the batch, which resident blocks share."""
    block = (WARPS * WARP + WARPGROUP, 1, 1)
    return Launch((_tiles(problem, config), 1, 1), block, _shared_bytes(config, problem.dtype), resident=True)


def _clocks(problem: Problem, config: TileConfig, multiprocessors: int) -> float:
    """Waves of tiles, at the rate of the tensor cores."""
    rows = config["block_m"]
    tile = rows * config["block_n"] * problem.k / MULTIPLY_ADDS * SLOWER.get(rows, 1.0)
    return tiles(_tiles(problem, config), multiprocessors) * (tile + TILE_CLOCKS + rows * ROW_CLOCKS)


def _boxes(_problem: Problem, config: TileConfig) -> Boxes:
    """Rows of 128 bytes: of A all of a tile's, of B all of a stage's."""
    return Boxes(a=(config["block_m"], BOX), b=(config["block_k"], BOX), c=(GROUP, BOX), wanted=(False, False))


def _config(block_m: int) -> TileConfig:
    return {"block_m": block_m, "block_n": BLOCK_N, "block_k": BLOCK_K, "step": STEP, "stages": STAGES}


HOPPER_FP64: tuple[CudaKernel, ...] = (
    CudaKernel(
        name="hopper_fp64",
        summary="float64 on Hopper's tensor cores, fed by TMA: resident blocks with tiles of several sizes.",
        idea="The instructions of `tensor_fp64`, in warps that copy nothing. One thread of a warp group of its own "
        "asks the copy engine for boxes of both operands and counts bytes on a barrier; the others take over the "
        "registers of its group. Eight rows by 16 columns and 16 steps of k are one instruction, so a warp's rows "
        "need only be a multiple of eight, and tiles have as many rows as make the last wave fullest. All reads of "
        "shared memory are 16 bytes wide and free of bank conflicts. Blocks stay on their multiprocessor and go from "
        "tile to tile: the next tile's boxes arrive while sums of the last one are stored. A must lie along k and B "
        "across it, as in a plain A·B: an operand in the other layout is transposed first, and one whose rows do not "
        "begin at multiples of 16 bytes is copied, within the kernel's time.",
        origin="The warp-level float64 instructions of compute capability 9.0, fed as in CUTLASS 3 for sm_90.",
        accuracy={"float64": OWN_ACCURACY["float64"]},
        arithmetic={"float64": "tensor"},
        min_compute_capability=HOPPER,
        architecture_specific=True,
        parameters=(
            Parameter("block_m", ROWS, 128, "rows of the product per thread block"),
            Parameter("block_n", (BLOCK_N,), BLOCK_N, "columns of the product per thread block"),
            Parameter("block_k", (BLOCK_K,), BLOCK_K, "steps of k per stage"),
            Parameter("step", (STEP,), STEP, "steps of k per instruction"),
            Parameter("stages", (STAGES,), STAGES, "tiles in shared memory: one multiplied, the others in flight"),
        ),
        defaults=tuple(Default(config=_config(rows)) for rows in ROWS),
        arrange=_resident_blocks,
        shared_bytes=_shared_bytes,
        accumulators=lambda config: config["block_m"] * config["block_n"] // (WARPS * WARP),
        clocks=_clocks,
        boxes=_boxes,
        supports_dependent_launch=True,
    ),
)
