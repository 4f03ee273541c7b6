"""A small sweep of CUDA kernels, to be run under a tool of compute-sanitizer: `make sanitize` starts it.

Memory comes straight from the driver, so that a step past an operand is a step past an allocation. Only the launches
count here, not the products: operands are all one number, and C is not initialised.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.gpu.sanitize.launches import launches
from tests.support.kernels.catalogue import mirrored_at_any_size
from worker.cuda.sources import Program, kernel_program

COMPILE = "--compile"  # nothing is launched
LAUNCHES = "{} launches"  # said at the end


def main() -> None:
    """DIRECTORY of compiled kernels, and the kernels' names."""
    import cupy

    from tests.gpu.sanitize.swept import run
    from worker.cuda.compile import Compiler
    from worker.cuda.gpu.info import cuda_info

    cupy.cuda.set_allocator(None)
    compiler, names = Compiler(Path(sys.argv[1])), sys.argv[2:]
    with mirrored_at_any_size():
        swept = list(launches(cuda_info(0).traits, names))
        programs: set[Program] = {kernel_program(one.kernel, one.config, one.problem, fused=one.fused) for one in swept}
        with ThreadPoolExecutor() as pool:
            list(pool.map(compiler.binary, programs))
        for one in swept if COMPILE not in names else ():
            run(compiler, one)
    print(LAUNCHES.format(len(swept)), flush=True)


if __name__ == "__main__":
    main()
