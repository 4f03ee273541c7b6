"""A small sweep of CUDA kernels, to be run under a tool of compute-sanitizer: `make sanitize` starts it.

Memory comes straight from the driver, so that a step past an operand is a step past an allocation. Only the launches
count here, not the products: operands are all one number, and C is not initialised.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernels.catalog import CATALOG
from kernels.model.edge import MAX_EDGE
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.defaults import example, main_dtype
from tests.support.kernels.catalogue import pair_dtypes

# m, n, k, batch: parts of tiles on every side. Rows of the second begin where bulk copies do not reach.
LARGER, BATCHED = (133, 261, 67, 1), (40, 50, 33, 2)
GROUP_SIZES = (65, 0, 1, 67)  # of the rows of the first
TRANSPOSES = ((False, False), (False, True), (True, False), (True, True))
NORMAL, NOT_FINITE = 0x3C, 0xFF  # every byte of the operands: an ordinary number in each type, and NaN in the floats
Case = tuple[CudaKernel, TileConfig, Problem, int]


def on_gpu(traits: DeviceTraits) -> tuple[CudaKernel, ...]:
    """Kernels of ours that this device runs."""
    ours = (kernel for kernel in CATALOG if isinstance(kernel, CudaKernel))
    return tuple(kernel for kernel in ours if kernel.unsupported_because(traits) is None)


def cases(traits: DeviceTraits, names: Collection[str]) -> Iterator[Case]:
    """The defaults for large and small products in the main element type, for medium ones in the others; with an edge
    where there may be one.

    Kernels whose passes look at the operands meet numbers too that they leave to another way.
    """
    for kernel in on_gpu(traits):
        if kernel.name not in names:
            continue
        for dtype in kernel.dtypes:
            if kernel.unsupported_because(traits, dtype) is None:
                for config, problem in _launches(kernel, dtype, traits):
                    for fill in (NORMAL,) if kernel.passes is None else (NORMAL, NOT_FINITE):
                        yield kernel, config, problem, fill


def _launches(kernel: CudaKernel, dtype: DTypeName, traits: DeviceTraits) -> Iterator[tuple[TileConfig, Problem]]:
    is_main = dtype == main_dtype(kernel)
    for bucket in ("large", "small") if is_main else ("medium",):
        asked = {"edge": MAX_EDGE} if any(p.name == "edge" for p in kernel.parameters) else NO_CONFIG
        config = kernel.resolve_config(asked, example(bucket, dtype), traits)
        for transposes in TRANSPOSES if is_main else TRANSPOSES[:1]:
            yield config, Problem(*LARGER[:3], dtype, 1, *transposes)
        m, n, k, batch = BATCHED
        yield config, Problem(m, n, k, dtype, batch, *TRANSPOSES[1], a_batched=True)
        grouped = Problem(*LARGER[:3], dtype, group_sizes=GROUP_SIZES)
        if kernel.takes_groups_of(grouped):
            yield kernel.resolve_config(asked, grouped, traits), grouped
        for pairs in pair_dtypes(kernel) if is_main else ():
            for transposes in TRANSPOSES:
                yield config, Problem(*LARGER[:3], pairs, 1, *transposes)


def main() -> None:
    """DIRECTORY of compiled kernels, and the kernels' names."""
    import cupy

    from tests.gpu.swept import run
    from worker.cuda.compile import Compiler
    from worker.cuda.gpu.info import cuda_info
    from worker.cuda.sources import kernel_program

    cupy.cuda.set_allocator(None)
    compiler = Compiler(Path(sys.argv[1]))
    swept = list(cases(cuda_info(0).traits, sys.argv[2:]))
    with ThreadPoolExecutor() as pool:
        list(pool.map(compiler.binary, {kernel_program(*case[:3]) for case in swept}))
    for case in swept:
        run(compiler, *case)
    print(f"{len(swept)} launches", flush=True)


if __name__ == "__main__":
    main()
