"""Compiles the kernels that workers are likely to load, for the GPUs of this machine or for the given architectures.

python -m worker.cuda.ahead [--directory DIRECTORY] [--kernels KERNEL …] [ARCHITECTURE …]

No GPU is needed to compile. Existing binaries are not compiled again. It runs on all cores at the lowest priority.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from jobs.errors import InvalidSettings, KernelUnavailable
from jobs.starting.wrong_settings import checked_settings
from kernels.catalog import CATALOG
from kernels.model.kernel import CudaKernel
from worker.cpu.device import usable_cores
from worker.cuda.ahead.programs import capability_of, programs_ahead, traits_of
from worker.cuda.compile import KernelFiles, arch_for, compile_program
from worker.cuda.gpu.telemetry import compute_capabilities
from worker.cuda.sources import Program

LOWEST_PRIORITY = 19
NO_GPU = "There is no GPU here. Name the architectures to compile for, as in sm_90."
OURS = tuple(kernel.name for kernel in CATALOG if isinstance(kernel, CudaKernel))


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architectures", nargs="*", help="as in sm_90; without any, those of this machine's GPUs")
    parser.add_argument("--directory", type=Path, help="in place of MATMUL_KERNEL_CACHE_DIR")
    parser.add_argument("--kernels", nargs="+", choices=OURS, default=(), help="only what these launch")
    options = parser.parse_args(given)
    try:
        settings = checked_settings()
    except InvalidSettings as error:
        print(error, file=sys.stderr)
        return 1
    directory: Path = options.directory or settings.kernel_cache_dir
    shipped = None if options.directory else settings.compiled_kernels_dir
    archs = options.architectures or [f"sm_{major}{minor}" for major, minor in compute_capabilities()]
    if not archs:
        print(NO_GPU, file=sys.stderr)
        return 1
    os.nice(LOWEST_PRIORITY)
    try:
        return max([_filled(arch, directory, shipped, options.kernels) for arch in archs])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2


def _filled(arch: str, directory: Path, shipped: Path | None, kernels: Sequence[str]) -> int:
    """Fills the cache for one architecture and prints the result; 0 if all kernels are compiled."""
    major, minor = capability_of(arch)
    programs = programs_ahead(traits_of(arch), kernels)
    files = KernelFiles(directory, arch_for(10 * major + minor), shipped)
    started, used = time.monotonic(), time.process_time()
    missing = [program for program in programs if files.find(program) is None]
    failed = compile_all(missing, files)
    seconds, cpu_s = time.monotonic() - started, time.process_time() - used
    size = sum(_size(files.find(program)) for program in programs)
    compiled = f"{len(missing) - failed} of {len(programs)} programs compiled"
    summary = f"{compiled} in {seconds:.0f} s, {cpu_s:.0f} s of CPU time"
    print(f"{arch}: {summary}; all take {size / 2**20:.1f} MiB" + (f"; {failed} failed" if failed else ""), flush=True)
    return int(failed > 0)


def compile_all(programs: Iterable[Program], files: KernelFiles) -> int:
    """Compiles on all cores, in this order; returns the number of failures, which are logged."""

    def compiled(program: Program) -> bool:
        with suppress(KernelUnavailable):
            return files.keep(program, compile_program(program, files.arch))
        return False

    with ThreadPoolExecutor(usable_cores()) as pool:
        return list(pool.map(compiled, programs)).count(False)


def _size(path: Path | None) -> int:
    return path.stat().st_size if path is not None else 0


if __name__ == "__main__":
    sys.exit(main())
