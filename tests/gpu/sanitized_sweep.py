"""A small sweep of every CUDA kernel, to be run under compute-sanitizer: `make sanitize`.

Memory comes straight from the driver, so that a step past an operand is a step past an allocation. Only the launches
count here, not the products: operands are zeros, and C is not initialised.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cupy

from kernels.catalog import CATALOG
from kernels.defaults import example, main_dtype
from kernels.kernel import NO_CONFIG, CudaKernel, DeviceTraits, TileConfig
from kernels.numerics import Problem
from worker.compile import Compiler
from worker.cuda_device import cuda_info
from worker.device_memory import DeviceMatrix, allocate
from worker.launch import launch, prepare
from worker.pitch import Layout, operand_layout, product_layout
from worker.sources import kernel_program

SHAPES = ((133, 261, 67, 1), (40, 50, 33, 2))  # m, n, k, batch: parts of tiles on every side
TRANSPOSES = ((False, False), (False, True), (True, False), (True, True))
Case = tuple[CudaKernel, TileConfig, Problem]


def cases(traits: DeviceTraits) -> Iterator[Case]:
    """The defaults for large and small products in the main element type, for medium ones in the others."""
    for kernel in CATALOG:
        if not isinstance(kernel, CudaKernel):
            continue
        for dtype in kernel.dtypes:
            is_main = dtype == main_dtype(kernel)
            for bucket in ("large", "small") if is_main else ("medium",):
                config = kernel.resolve_config(NO_CONFIG, example(bucket, dtype), traits)
                for over_a, over_b in TRANSPOSES if is_main else TRANSPOSES[::3]:
                    for m, n, k, batch in SHAPES:
                        yield kernel, config, Problem(m, n, k, dtype, batch, over_a, over_b, batch > 1)


def zeros(layout: Layout) -> DeviceMatrix:
    matrix = allocate(layout)
    matrix.memory.memset(0, layout.bytes)
    return matrix


def run(compiler: Compiler, kernel: CudaKernel, config: TileConfig, problem: Problem) -> None:
    a = (problem.k, problem.m) if problem.transpose_a else (problem.m, problem.k)
    b = (problem.n, problem.k) if problem.transpose_b else (problem.k, problem.n)
    on_a = zeros(operand_layout(problem.dtype, (problem.batch, *a) if problem.a_batched else a))
    on_b = zeros(operand_layout(problem.dtype, b))
    function = prepare(compiler, kernel, config, problem)
    launch(function, kernel, config, problem, on_a, on_b, allocate(product_layout(problem)))
    cupy.cuda.Device().synchronize()


def main() -> None:
    cupy.cuda.set_allocator(None)
    compiler = Compiler(Path(sys.argv[1]))
    swept = list(cases(cuda_info(0).traits))
    with ThreadPoolExecutor() as pool:
        list(pool.map(compiler.binary, {kernel_program(*case) for case in swept}))
    for case in swept:
        run(compiler, *case)
    print(f"{len(swept)} launches")


if __name__ == "__main__":
    main()
