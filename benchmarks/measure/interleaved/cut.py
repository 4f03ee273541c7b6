"""Measures products of 16-bit floats with few tiles and a deep k on a GPU: with tiles cut along k and without, each in
the config that is taken, and cuBLAS by default and tuned.

    python -m benchmarks.measure.interleaved.cut --out benchmarks/results/h100_cut.json

Times are medians of alternating samples with a cold cache; launches are queued before they are timed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from benchmarks.measure.interleaved.launches import compile_all, job_config, kernel_launch, library_launches
from benchmarks.measure.interleaved.timing import Launch, cuda_kernel, rounded, run, sampler_of, times_ms
from jobs.benchmarks.spec import DataSpec
from kernels.entries.hopper.waves import never_cut
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem

if TYPE_CHECKING:
    from worker.cuda.library.cublas import Cublas
    from worker.cuda.runner import CudaRunner

KERNELS: dict[str, DTypeName] = {"hopper_bf16": "bfloat16", "hopper_fp16": "float16"}
CUT, WHOLE = "cut", "whole"
LIBRARIES = ("cublas", "cublas_tuned")
SHAPES = (
    (128, 512, 32_768),
    (300, 300, 20_000),
    (64, 64, 50_000),
    (64, 4096, 8192),
    (256, 4096, 16_384),
    (512, 1024, 16_384),
    (1000, 1000, 4000),
    (700, 1800, 12_000),
    (1025, 513, 8191),
    (16, 8192, 8192),
)
SAMPLES = 15


def launches_of(runner: CudaRunner, cublas: Cublas, problem: Problem, name: str) -> dict[str, Launch]:
    """Launches that compute the product, by their names in a row."""

    def ours(kernel: CudaKernel) -> Launch:
        return kernel_launch(runner, kernel, job_config(runner, kernel, problem), problem)

    kernel = cuda_kernel(name)
    own = {CUT: ours(kernel), WHOLE: ours(never_cut(kernel))}
    return own | library_launches(cublas, problem, LIBRARIES)


def measured(runner: CudaRunner) -> Iterator[Mapping[str, Any]]:
    """A row for each kernel and shape: times in milliseconds."""
    from worker.cuda.bench.operands import random_set
    from worker.cuda.library.cublas import Cublas

    compile_all(runner, cases(runner))
    sampler, cublas = sampler_of(runner), Cublas(runner.compiler)
    for m, n, k in SHAPES:
        for name, dtype in KERNELS.items():
            problem = Problem(m, n, k, dtype)
            launches = launches_of(runner, cublas, problem, name)
            at = random_set(runner.compiler, problem, DataSpec())
            ms = rounded(times_ms(sampler, launches, at, SAMPLES))
            yield {"kernel": name, "m": m, "n": n, "k": k, "samples": SAMPLES, "ms": ms}


def cases(runner: CudaRunner) -> Iterator[tuple[CudaKernel, TileConfig, Problem]]:
    """All that is compiled."""
    for name, dtype in KERNELS.items():
        for problem in (Problem(m, n, k, dtype) for m, n, k in SHAPES):
            for kernel in (cuda_kernel(name), never_cut(cuda_kernel(name))):
                yield kernel, job_config(runner, kernel, problem), problem


if __name__ == "__main__":
    run(__doc__, measured)
