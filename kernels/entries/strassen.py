"""Seven half-size products instead of eight, over the pipeline of `pipelined`."""

from __future__ import annotations

from kernels.entries.warp_tiles import PIPELINED
from kernels.model.arrange import MAX_GRID_Z, tile_grid
from kernels.model.entry.config import Parameter, TileConfig
from kernels.model.groups import tiles
from kernels.model.kernel import CudaKernel, Default, Kernel
from kernels.model.launch_plan import Launch, Pass, Workspace
from kernels.model.numerics import Problem

FACTORS, QUARTER_SUMS = 7, 5  # half-size products, and sums of quarters of one operand
GROUP, ITEM_BYTES, LINE_BYTES = 4, 4, 128  # elements of a run; bytes of an element, and of what begins a new line
PASS_THREADS, PASS_ROWS = 256, 4
PASS_COLUMNS = PASS_THREADS * GROUP
LARGE: TileConfig = {"block_m": 128, "block_n": 256, "warp_m": 32, "warp_n": 128, "thread_m": 16, "thread_n": 8}


def _pipelined() -> CudaKernel:
    (kernel,) = PIPELINED
    assert isinstance(kernel, CudaKernel)
    return kernel


BASE = _pipelined()  # whose tiles and constraints these are


def is_direct(problem: Problem, config: TileConfig) -> bool:
    """Whether it is multiplied whole, in the ordinary way."""
    too_small = min(problem.m, problem.n, problem.k) < config["min_side"]
    return too_small or FACTORS * problem.batch > MAX_GRID_Z


def half_of(extent: int) -> int:
    """The first half, which is the larger: a whole number of runs."""
    return tiles(extent, 2 * GROUP) * GROUP


def _halves(problem: Problem) -> tuple[int, int, int]:
    return half_of(problem.m), half_of(problem.n), half_of(problem.k)


def _items(problem: Problem) -> tuple[int, int]:
    """Matrices in A and in B."""
    return (problem.batch if problem.a_batched else 1), (problem.batch if problem.b_batched else 1)


def _quarter_tiles(problem: Problem, config: TileConfig) -> int:
    m, n, _ = _halves(problem)
    return tiles(m, config["block_m"]) * tiles(n, config["block_n"])


def _workspace(problem: Problem, config: TileConfig) -> Workspace:
    """As `Halves` in strassen_layout.cuh lays it out: largest magnitudes and counters, which start as zero; sums of
    quarters; half-size products."""
    if is_direct(problem, config):
        return Workspace(0, 0)
    (items_a, items_b), (m, n, k) = _items(problem), _halves(problem)
    counted = (items_a + items_b + _quarter_tiles(problem, config) * problem.batch) * 4
    zeroed = tiles(counted, LINE_BYTES) * LINE_BYTES
    elements = QUARTER_SUMS * (items_a * m * k + items_b * k * n) + FACTORS * problem.batch * m * n
    return Workspace(zeroed + elements * ITEM_BYTES, zeroed)


def _passes(problem: Problem, config: TileConfig) -> tuple[Pass, ...]:
    """The sums, A's blocks first."""
    if is_direct(problem, config):
        return ()
    (items_a, items_b), (m, n, k) = _items(problem), _halves(problem)
    blocks = items_a * _sum_blocks(*((k, m) if problem.transpose_a else (m, k)))
    blocks += items_b * _sum_blocks(*((n, k) if problem.transpose_b else (k, n)))
    return (Pass("strassen_sums", Launch((blocks, 1, 1), (PASS_THREADS, 1, 1))),)


def _sum_blocks(rows: int, columns: int) -> int:
    """Blocks that add a quarter, as it is stored."""
    return tiles(rows, PASS_ROWS) * tiles(columns, PASS_COLUMNS)


def _arrange(problem: Problem, config: TileConfig) -> Launch:
    """A layer of the grid for each product; for each half-size one, if there are seven per product of the batch."""
    shared_bytes = BASE.shared_bytes(config, problem.dtype)
    threads = BASE.plan(problem, config).main.block[0]
    if is_direct(problem, config):
        tile = config["block_m"], config["block_n"]
        return tile_grid(problem, tile, (threads, 1), shared_bytes=shared_bytes)
    return Launch((_quarter_tiles(problem, config), 1, FACTORS * problem.batch), (threads, 1, 1), shared_bytes)


STRASSEN: tuple[Kernel, ...] = (
    CudaKernel(
        name="strassen",
        summary="Seven half-size products instead of eight: Strassen's algorithm, one level.",
        idea="Operands are halved in both directions. A pass writes ten sums of quarters, seven half-size products are "
        "computed as in `pipelined`, and the last block of a tile's seven combines them into C. This saves an eighth "
        "of the multiply-adds, for traffic that grows only with the square of the size, so it pays from some thousand "
        "rows on; smaller products are multiplied in the ordinary way. The price is accuracy: errors are in proportion "
        "to the largest rows of A and columns of B, so small elements of C may lose the accuracy of float32. The "
        "accuracy `fp32_normwise` says so; a request for `fp32` never gets this kernel. Infinities, NaN, and elements "
        "so large that sums might overflow are found on the way, and such matrices are multiplied in the ordinary way.",
        origin="V. Strassen, Gaussian elimination is not optimal (1969); N. Higham's bound for its errors (2002).",
        accuracy={"float32": "fp32_normwise"},
        arithmetic={"float32": "strassen"},
        min_compute_capability=BASE.min_compute_capability,
        emulated_with=("float32", FACTORS / 8),
        parameters=(
            Parameter("block_m", (128,), 128, "rows of a half-size product per thread block"),
            Parameter("block_n", (128, 256), 128, "columns of a half-size product per thread block"),
            Parameter("block_k", (8,), 8, "steps of k per shared tile"),
            Parameter("warp_m", (32,), 32, "rows of the product per warp"),
            Parameter("warp_n", (64, 128), 64, "columns of the product per warp"),
            Parameter("thread_m", (8, 16), 8, "rows of the product per thread"),
            Parameter("thread_n", (8,), 8, "columns of the product per thread"),
            Parameter("stages", (4,), 4, "pairs of tiles in shared memory"),
            Parameter(
                "min_side",
                (64, 1024, 2048, 3072, 4096),
                3072,
                "a product with a shorter side is multiplied in the ordinary way",
                compiled=False,
            ),
        ),
        constraints=BASE.constraints,
        defaults=(Default(config=LARGE, min_compute_capability=(8, 6)),),
        arrange=_arrange,
        shared_bytes=BASE.shared_bytes,
        accumulators=BASE.accumulators,
        workspace=_workspace,
        passes=_passes,
    ),
)
