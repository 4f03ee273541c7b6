"""The catalogue: every kernel, in ladder order, in one list that can be seen.

A kernel is its entry here and, if it is ours, one file in `cuda/`. Everything else (the API's enum, /v1/kernels, docs,
tests, metrics) follows from this tuple.
"""

from __future__ import annotations

from types import MappingProxyType

from kernels.kernel import Constraint, CudaKernel, Kernel, Launch, LibraryKernel, Parameter, TileConfig
from kernels.numerics import AccuracyName, DTypeName, Problem

MAX_GRID_Z = 65_535  # CUDA's limit; kernels loop over the rest of the batch

# Every SIMT kernel accumulates 16-bit types in fp32 and int8 in int32, so each type meets its own class.
NATIVE: dict[DTypeName, AccuracyName] = {
    "float16": "tf32",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "int8": "exact",
    "int32": "exact",
}


def _tiles(extent: int, tile: int) -> int:
    return -(-extent // tile)


def _one_thread_per_element(problem: Problem, config: TileConfig) -> Launch:
    """Tiles on x alone (its limit is 2^31), column tiles fastest; the batch on z."""
    columns, rows = config["block_n"], config["block_m"]
    grid_x = _tiles(problem.n, columns) * _tiles(problem.m, rows)
    return Launch((grid_x, 1, min(problem.batch, MAX_GRID_Z)), (columns, rows, 1))


def _square_tile(problem: Problem, config: TileConfig) -> Launch:
    tile = config["tile"]
    grid_x = _tiles(problem.n, tile) * _tiles(problem.m, tile)
    return Launch((grid_x, 1, min(problem.batch, MAX_GRID_Z)), (tile, tile, 1))


CATALOG: tuple[Kernel, ...] = (
    LibraryKernel(
        name="cpu_blas",
        summary="Multi-core BLAS on the CPU, through NumPy.",
        idea="The yardstick without a GPU. NumPy hands float32 and float64 products to the BLAS it was built with; "
        "16-bit floats are widened to float32 and rounded once at the end; integers are summed exactly.",
        origin="NumPy and its BLAS; the CPU column of reports 000 and 002.",
        device_class="cpu",
        library="NumPy BLAS",
        accuracy=NATIVE,
    ),
    CudaKernel(
        name="naive",
        summary="One thread per element of the product, neighbouring threads on neighbouring columns.",
        idea="Each thread walks a row of A and a column of B. Threads of a warp share the row and read consecutive "
        "elements of B, so loads coalesce, but every operand element still comes from L2 or DRAM once per tile row.",
        origin="Reports 000 to 004 (naive, V1, MatmulYrow).",
        accuracy=NATIVE,
        parameters=(
            Parameter("block_m", (1, 2, 4, 8, 16, 32), 8, "rows of the product per thread block"),
            Parameter("block_n", (8, 16, 32, 64, 128), 32, "columns of the product per thread block"),
        ),
        constraints=(
            Constraint(
                lambda c: 32 <= c["block_m"] * c["block_n"] <= 1024,
                "block_m × block_n = {block_m} × {block_n} must be between 32 and 1024 threads.",
            ),
        ),
        arrange=_one_thread_per_element,
    ),
    CudaKernel(
        name="shared_tiled",
        summary="Square tiles of both operands staged in shared memory.",
        idea="A block copies one tile of A and one of B into shared memory and each thread sums from there, so an "
        "element is read from device memory once per tile instead of once per thread: traffic falls by the tile size.",
        origin="Reports 000, 001 (V3), 002, 003 and 004 (levels 1 and 2).",
        accuracy=NATIVE,
        parameters=(Parameter("tile", (8, 16, 32), 32, "rows and columns of the square tile, and threads per side"),),
        arrange=_square_tile,
    ),
    LibraryKernel(
        name="cublas",
        summary="NVIDIA's library at the operands' own precision.",
        idea="The baseline: cuBLAS picks among hundreds of prebuilt kernels. float32 is not lowered to TF32; "
        "16-bit floats accumulate in float32; int8 goes through its integer path.",
        origin="cuBLAS through CuPy; the library column of report 003.",
        device_class="gpu",
        library="cuBLAS",
        accuracy={name: cls for name, cls in NATIVE.items() if name != "int32"},
    ),
)


def _index(kernels: tuple[Kernel, ...]) -> dict[str, Kernel]:
    index: dict[str, Kernel] = {}
    for kernel in kernels:
        if kernel.name in index:
            raise ValueError(f"two catalogue entries are named {kernel.name!r}")
        index[kernel.name] = kernel
    return index


BY_NAME = MappingProxyType(_index(CATALOG))
KERNEL_NAMES: tuple[str, ...] = tuple(BY_NAME)
