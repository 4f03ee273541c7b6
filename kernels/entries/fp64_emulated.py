"""float64 products from int8 products of remainders: fp64-accurate emulation on Hopper's tensor cores."""

from __future__ import annotations

from kernels.entries.hopper.tensor_cores import CONSUMERS, HOPPER, WARPGROUP
from kernels.entries.tensor_fp64 import TENSOR_FP64
from kernels.model.entry.config import Parameter, TileConfig
from kernels.model.entry.fallback import Fallback
from kernels.model.groups import tiles
from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.launch_plan import Launch, Pass, Workspace
from kernels.model.numerics import DTYPES, DTypeName, Problem

LINES = DEPTH = 128  # of a tile of remainders: rows of A or columns of B, steps of k
FEWEST, MOST = 14, 16  # moduli
SMALLEST_SIDE = 64  # a product with a shorter side is not worth its remainders
LARGEST_DEPTH = 1 << 24  # steps of k for which the bounds are derived
STAGES = {128: 6, 256: 4}  # of the ring, by columns of a tile
BARRIER_BYTES = 8
NOTES_BYTES = 8 * 16  # of what a producer tells consumers of a tile
PASS_THREADS, WARPS = 256, 8
SEGMENT = 512  # numbers of a line that are measured together
COMPLEX_PLANES = 3  # of an operand of pairs of numbers, by modulus: three real products are a complex one
LINES_ACROSS = 32  # that are measured together where they lie across memory
VERDICT_BYTES = 128  # `Verdict` in residue_layout.cuh
SEGMENT_BYTES, SCALE_BYTES = 16, 4
JOINED_COLUMNS = 64  # of a tile of C, by a block of what puts it together
# Of the float64 kernel behind it, on every device: so it is one program, compiled ahead.
BEHIND = {"block_m": 128, "block_n": 128, "block_k": 16, "warp_m": 64, "warp_n": 32, "step": 8, "ahead": 2, "stages": 3}
BEHIND |= {"edge": 0, "resident": 0}

# Looking at operands takes a twentieth of a product in float64 at most where this kernel is the faster, and tensor_fp64
# is within an eighth of what else would be taken: less than a fifth is lost, which is gained where nothing falls back.
WORTH = 1.25


def _numbers(problem: Problem) -> int:
    """The numbers of an element: a complex one has two parts."""
    return 2 if DTYPES[problem.dtype].is_complex else 1


def is_direct(problem: Problem) -> bool:
    """Whether it goes to the float64 kernel whole, without remainders."""
    return min(problem.m, problem.n, problem.k) < SMALLEST_SIDE or problem.k * _numbers(problem) > LARGEST_DEPTH


def _items(problem: Problem) -> tuple[int, int]:
    """Matrices in A and in B."""
    return (problem.batch if problem.a_batched else 1), (problem.batch if problem.b_batched else 1)


def _line_blocks(problem: Problem) -> int:
    """Blocks of LINES lines each, in both operands."""
    items_a, items_b = _items(problem)
    return items_a * tiles(problem.m, LINES) + items_b * tiles(problem.n, LINES)


def _tiles(problem: Problem, config: TileConfig) -> int:
    """The number of tiles of C, over the whole batch."""
    return problem.batch * tiles(problem.m, LINES) * tiles(problem.n, config["block_n"])


def _shared_bytes(config: TileConfig, dtype: DTypeName) -> int:
    """Of complex products with remainders of a tile, which are in both parts of C."""
    kept = LINES * config["block_n"] if DTYPES[dtype].is_complex else 0
    return STAGES[config["block_n"]] * ((LINES + config["block_n"]) * DEPTH + 2 * BARRIER_BYTES) + NOTES_BYTES + kept


def _workspace(problem: Problem, config: TileConfig) -> Workspace:
    """As `Findings` in residue_layout.cuh lays it out: what the passes find, of which the verdict starts as zero;
    remainders of C, and those of both operands."""
    if is_direct(problem):
        return Workspace(0, 0)
    blocks = _line_blocks(problem)
    numbers = _numbers(problem)
    of_line = SEGMENT_BYTES * tiles(problem.k * numbers, SEGMENT) + SCALE_BYTES * (MOST - FEWEST + 1)
    of_c = _tiles(problem, config) * numbers * MOST * LINES * config["block_n"]
    planes = MOST * (COMPLEX_PLANES if numbers > 1 else 1)
    of_operands = planes * blocks * LINES * tiles(problem.k, DEPTH) * DEPTH
    return Workspace(VERDICT_BYTES + blocks * LINES * of_line + of_c + of_operands, VERDICT_BYTES)


def _measured_blocks(items: int, lines: int, segments: int, *, along: bool) -> int:
    """A segment for each warp where lines lie along memory, else one of as many lines as a warp has threads for each
    block."""
    return tiles(items * lines * segments, WARPS) if along else items * tiles(lines, LINES_ACROSS) * segments


def _passes(problem: Problem, config: TileConfig) -> tuple[Pass, ...]:
    """Measure lines, judge them, write remainders; and behind the kernel make C of the product's."""
    if is_direct(problem):
        return ()
    block, (items_a, items_b) = (PASS_THREADS, 1, 1), _items(problem)
    segments, blocks = tiles(problem.k * _numbers(problem), SEGMENT), _line_blocks(problem)
    measured = _measured_blocks(items_a, problem.m, segments, along=not problem.transpose_a)
    measured += _measured_blocks(items_b, problem.n, segments, along=problem.transpose_b)
    joined = _tiles(problem, config) * (config["block_n"] // JOINED_COLUMNS)
    return (
        Pass("residue_measure", Launch((measured, 1, 1), block)),
        Pass("residue_judge", Launch((tiles(blocks, PASS_THREADS // LINES), 1, 1), block)),
        Pass("residue_split", Launch((blocks * tiles(problem.k, DEPTH), 1, 1), block)),
        Pass("residue_join", Launch((joined, 1, 1), block), behind=True),
    )


def _resident_blocks(problem: Problem, config: TileConfig) -> Launch:
    """A cluster takes a tile for each of its blocks at a time, modulo one modulus. The device decides how many moduli
    there are, of which fewest are sure."""
    cluster = config["cluster"]
    pieces = FEWEST * problem.batch * tiles(problem.m, LINES * cluster) * tiles(problem.n, config["block_n"])
    threads = (CONSUMERS + 1) * WARPGROUP
    return Launch(
        (pieces, 1, 1),
        (threads, 1, 1),
        _shared_bytes(config, problem.dtype),
        resident=True,
        cluster=cluster,
        stacked=cluster,
    )


FP64_EMULATED: tuple[Kernel, ...] = (
    CudaKernel(
        name="fp64_emulated",
        summary="float64 as remainders of int8 products on Hopper's tensor cores: fp64-accurate emulation.",
        idea="Tensor cores multiply bytes thirty times as fast as they multiply float64, and add them without error. "
        "Rows of A and columns of B are scaled by a number each and rounded to integers, of which products are below "
        "2^109. Such an integer is told by its remainders of 14 moduli of at most 256, which have no common divisor, "
        "and remainders of a product follow from those of its factors. So 14 products of bytes, each reduced modulo "
        "its own number when k is done, are the exact product of the integers. A block takes a tile modulo one modulus "
        "and then another, so that few tiles keep a device busy, and a last pass puts remainders together in pieces of "
        "float64 whose sums are exact: C is rounded once, and whole numbers stay whole. Rounding the operands is the "
        "only other error, and it is bounded without assumptions: one pass measures norms and geometric means of "
        "lines, and one takes 14, 15 or 16 moduli, so that every element keeps the bound of float64 sums. Where that "
        "cannot be shown, as for rows whose elements lie many binades apart, or with an infinity or a NaN, tensor_fp64 "
        "computes the whole product: that is decided on the device. Products with a side below 64 go straight to "
        "tensor_fp64.",
        origin="Ozaki scheme II (K. Ozaki, Y. Uchino and T. Imamura, arXiv 2504.08009), one launch for all moduli.",
        accuracy={"float64": "fp64"},
        min_compute_capability=HOPPER,
        architecture_specific=True,
        emulated_with=("int8", FEWEST),
        supports_dependent_launch=True,
        parameters=(
            Parameter("block_m", (LINES,), LINES, "rows of the product per thread block", compiled=False),
            Parameter("block_n", (128, 256), 256, "columns of the product per thread block"),
            Parameter("block_k", (DEPTH,), DEPTH, "steps of k per ring slot", compiled=False),
            Parameter("cluster", (1, 2), 2, "vertically adjacent thread blocks that share tiles of B's remainders"),
        ),
        arrange=_resident_blocks,
        shared_bytes=_shared_bytes,
        accumulators=lambda config: config["block_n"] // 4,  # in float64: an int32 takes half of one
        workspace=_workspace,
        passes=_passes,
        fallback=Fallback(TENSOR_FP64[0], is_direct, lambda _problem: WORTH, BEHIND),
        takes_pairs=True,
    ),
)
