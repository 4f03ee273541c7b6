"""Measures products of 16-bit floats with few tiles and a deep k on a GPU: with tiles cut along k and without, each in
the config that is taken, and cuBLAS by default and tuned.

    python -m benchmarks.measure.interleaved.cut --out benchmarks/results/h100_cut.json

Times are medians of alternating samples with a cold cache; launches are queued before they are timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure.interleaved.timing import Put, cuda_kernel, median_ms, record, sampler_of
from jobs.benchmarks.spec import DataSpec
from jobs.settings import Settings
from kernels.entries.hopper_waves import never_cut
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.candidates import Choice

if TYPE_CHECKING:
    from worker.cuda.bench.operands import OperandSet
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


def puts(runner: CudaRunner, cublas: Cublas, problem: Problem, name: str) -> dict[str, Put]:
    """Ways to compute the product, by their names in a row."""
    from worker.cuda.launch import prepare

    def ours(kernel: CudaKernel) -> Put:
        config = kernel.resolve_config(NO_CONFIG, problem, runner.device.traits)
        prepared = prepare(runner.compiler, kernel, config, problem)
        return lambda at: prepared.launch(at.a, at.b, at.c)

    def by_library(library: str, at: OperandSet) -> None:
        cublas.multiply(library, problem, at.a, at.b, at.c)

    kernel = cuda_kernel(name)
    own = {CUT: ours(kernel), WHOLE: ours(never_cut(kernel))}
    return own | {each: partial(by_library, each) for each in LIBRARIES}


def measured(runner: CudaRunner) -> Iterator[Mapping[str, Any]]:
    """A row for each kernel and shape: times in milliseconds."""
    from worker.cuda.bench.operands import random_set
    from worker.cuda.library.cublas import Cublas

    sampler, cublas = sampler_of(runner), Cublas(runner.compiler)
    for m, n, k in SHAPES:
        for name, dtype in KERNELS.items():
            problem = Problem(m, n, k, dtype)
            ways = puts(runner, cublas, problem, name)
            at = random_set(runner.compiler, problem, DataSpec())
            times = median_ms(sampler, list(ways.values()), at, SAMPLES)
            ms = {way: round(time, 5) for way, time in zip(ways, times, strict=True)}
            yield {"kernel": name, "m": m, "n": n, "k": k, "samples": SAMPLES, "ms": ms}


def compile_all(runner: CudaRunner) -> None:
    """On all cores."""
    wanted = []
    for name, dtype in KERNELS.items():
        for problem in (Problem(m, n, k, dtype) for m, n, k in SHAPES):
            for kernel in (cuda_kernel(name), never_cut(cuda_kernel(name))):
                config = kernel.resolve_config(NO_CONFIG, problem, runner.device.traits)
                wanted.append((Choice(kernel, config, ""), problem))
    runner.compile_ahead(wanted)


def main() -> None:
    from worker.cuda.runner import CudaRunner

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    runner = CudaRunner(Settings(device="gpu:0"))
    compile_all(runner)
    record(asked.out, runner.device.name, measured(runner))


if __name__ == "__main__":
    main()
