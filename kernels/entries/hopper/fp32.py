"""float32 on Hopper's CUDA cores, fed by TMA."""

from __future__ import annotations

from kernels.entries.hopper.cut import LARGEST_SHARED_BYTES
from kernels.entries.hopper.tensor_cores import HOPPER
from kernels.entries.hopper.tiles import BARRIER_BYTES, OUT_BOXES, OUT_BYTES, OUT_ROWS
from kernels.model.edge import EDGE, MAX_EDGE, core
from kernels.model.entry.boxes import Boxes, Thin
from kernels.model.entry.config import Constraint, Parameter, TileConfig
from kernels.model.groups import tiles
from kernels.model.kernel import CudaKernel, Default
from kernels.model.launch_plan import Launch, Workspace
from kernels.model.numerics import DTypeName, Problem
from kernels.model.triangle import TriangleName, triangle_tiles

WARP = 32  # threads
WARP_SIDE = 64  # rows and columns of a warp's tile
LANES = 128  # multiply-adds of a multiprocessor in a clock
WARPS = 8  # that 255 registers a thread leave room for on a multiprocessor
SUMS = WARP_SIDE * WARP_SIDE // WARP  # of a thread
BOX = 128  # rows of A, or columns of B
BLOCK_K = 32
ELEMENT_BYTES = 4
NOTES_BYTES = 120  # what feeding threads keep in shared memory
THIN_SLOTS = 5  # at most, of the ring of thin tiles: two barriers each
SHORTEST = 4 * BLOCK_K  # steps of k of a tile's part
MULTIPROCESSORS = 144  # of the full chip: no device of this compute capability has more
THIN_STEPS = 14  # of a tile of the last few rows or columns, in the time of one of a whole tile, as in hopper_thin.cuh
# One block of eight warps over two of four, measured on an H200, by whether A is MN-major. Otherwise it is transposed
# first, and the kernel begins meanwhile.
SLOWER_ALONE = {False: 0.985, True: 1.015}
RESERVED_BYTES = 1024  # of shared memory for each block


def _warps(config: TileConfig) -> int:
    return config["block_m"] * config["block_n"] // WARP_SIDE**2


def _shared_bytes(config: TileConfig, _dtype: DTypeName) -> int:
    """Stages, boxes of C on their way out, three barriers for each stage, notes, and barriers of thin tiles."""
    stage = (config["block_m"] + config["block_n"]) * config["block_k"] * ELEMENT_BYTES
    out = _warps(config) * OUT_BOXES * OUT_BYTES
    return config["stages"] * (stage + 3 * BARRIER_BYTES) + out + NOTES_BYTES + 2 * THIN_SLOTS * BARRIER_BYTES


def _largest_shared_bytes(config: TileConfig) -> int:
    """Of a block, if a multiprocessor holds as many as its registers allow."""
    return (LARGEST_SHARED_BYTES + RESERVED_BYTES) * _warps(config) // WARPS - RESERVED_BYTES


def _triangle(_problem: Problem, config: TileConfig) -> TriangleName | None:
    """In square tiles."""
    return "lower" if config["block_m"] == config["block_n"] else None


def _tiles(problem: Problem, config: TileConfig) -> int:
    if problem.symmetric and _triangle(problem, config):
        return triangle_tiles(problem, config["block_m"], config["block_n"])
    return tiles(problem.m, config["block_m"]) * tiles(problem.n, config["block_n"]) * problem.batch


def _inner(problem: Problem, config: TileConfig) -> Problem:
    return core(problem, config, (config["block_m"], config["block_n"]))


def _clocks(problem: Problem, config: TileConfig, multiprocessors: int) -> float:
    """All tiles, shared evenly among multiprocessors that get a share."""
    inner = _inner(problem, config)
    count = _tiles(inner, config)
    sums = (count + _thin_tiles(problem, inner, config) / THIN_STEPS) * config["block_m"] * config["block_n"]
    at_work = min(multiprocessors, count * max(problem.k // SHORTEST, 1))
    slower = SLOWER_ALONE[problem.transpose_a] if _warps(config) == WARPS else 1
    return sums * problem.k / (at_work * LANES) * slower


def _thin_tiles(problem: Problem, inner: Problem, config: TileConfig) -> int:
    """Of the last few rows, and of the last few columns above them."""
    wide = tiles(problem.n, config["block_n"]) if inner.m < problem.m else 0
    tall = tiles(inner.m, config["block_m"]) if inner.n < problem.n else 0
    return (wide + tall) * problem.batch


def _resident_blocks(problem: Problem, config: TileConfig) -> Launch:
    """All tiles of the batch, which resident blocks share; those of an incomplete wave are cut along k."""
    return Launch(
        (_tiles(_inner(problem, config), config), 1, 1),
        (_warps(config) * WARP, 1, 1),
        _shared_bytes(config, problem.dtype),
        resident=True,
        each=WARPS // _warps(config),
        parts=max(problem.k // SHORTEST, 1),
    )


def _workspace(problem: Problem, config: TileConfig) -> Workspace:
    """Sums of the pieces of tiles that are cut: fewer than tiles and blocks."""
    blocks = MULTIPROCESSORS * WARPS // _warps(config)
    pieces = blocks + min(_tiles(_inner(problem, config), config), blocks)
    return Workspace(pieces * config["block_m"] * config["block_n"] * ELEMENT_BYTES, 0)


def _boxes(problem: Problem, config: TileConfig) -> Boxes:
    inner = _inner(problem, config)
    return Boxes(
        a=(BLOCK_K, BOX),
        b=(BLOCK_K, BOX),
        c=(OUT_ROWS, BLOCK_K),
        wanted=(True, False),
        thin=Thin((BLOCK_K, MAX_EDGE), inner.m, inner.n),
    )


def _config(block_m: int, block_n: int, stages: int, edge: int) -> TileConfig:
    sizes = {"block_m": block_m, "block_n": block_n, "block_k": BLOCK_K}
    return sizes | {"stretch": 4, "stages": stages, "edge": edge}


HOPPER_FP32: tuple[CudaKernel, ...] = (
    CudaKernel(
        name="hopper_fp32",
        summary="float32 on CUDA cores, fed by TMA; resident blocks split the last wave along k.",
        idea="A thread keeps 16×8 sums and reads a step of k in six loads, so 19 of 20 instructions are multiply-adds. "
        "The warp that is ahead starts the TMA copies of the next stage, three instructions instead of a thousand; "
        "barriers count bytes and warps. Multiply-adds go in squares of two rows and two columns, which reuse operand "
        "registers: of three registers a multiply-add reads two, and the register file supplies no more in a clock. A "
        "must be MN-major, as B is in a plain A·B: an operand in the other layout is transposed first, within the "
        "kernel's time. Blocks stay on their multiprocessor; tiles that would fill only part of a last wave are cut "
        "along k into equal shares, and the last block to reach a tile adds its pieces in the order of k, so the same "
        "operands give the same bits. The last few rows and columns are thin tiles, limited by memory rather than "
        "multipliers: a few blocks compute them instead of a share.",
        origin="Stream-K (Osama and others, 2023); TMA-fed CUDA-core kernels as known for Hopper; the order of "
        "multiply-adds as in maxas (Gray, 2014).",
        accuracy={"float32": "fp32"},
        min_compute_capability=HOPPER,
        architecture_specific=True,
        parameters=(
            Parameter("block_m", (128, 256), 128, "rows of the product per thread block"),
            Parameter("block_n", (128, 256), 128, "columns of the product per thread block"),
            Parameter("block_k", (BLOCK_K,), BLOCK_K, "steps of k per stage"),
            Parameter("stretch", (4, 8), 4, "steps of k in one branch-free stretch of code"),
            Parameter("stages", (3, 4), 3, "tiles in shared memory: one multiplied, the others in flight"),
            EDGE,
        ),
        constraints=(
            Constraint(
                lambda c: c["block_m"] + c["block_n"] <= 3 * BOX,
                "A block of {block_m} × {block_n} has more sums than registers; only one side may be 256.",
            ),
            Constraint(
                lambda c: _shared_bytes(c, "float32") <= _largest_shared_bytes(c),
                "stages = {stages} of {block_m} × {block_n} must leave room for eight warps on a multiprocessor.",
            ),
        ),
        defaults=tuple(
            Default(config=_config(*shape, edge)) for shape in ((128, 128, 3), (128, 256, 4)) for edge in EDGE.values
        ),
        arrange=_resident_blocks,
        shared_bytes=_shared_bytes,
        accumulators=lambda _config: SUMS,
        workspace=_workspace,
        clocks=_clocks,
        triangle=_triangle,
        boxes=_boxes,
        supports_dependent_launch=True,
    ),
)
