"""Measures deep products on a GPU: with clusters kept in step and without, beside cuBLAS, by default and tuned.

    python -m benchmarks.measure.interleaved.deep --out benchmarks/results/h100_deep.json

Such products are the tiles of a product out of core. Times are medians of samples by turns, with a cold cache; launches
are queued before they are timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure.interleaved.timing import Put, cuda_kernel, median_ms, record, sampler_of
from jobs.benchmarks.spec import DataSpec
from jobs.settings import Settings
from kernels.model.entry.config import NO_CONFIG
from kernels.model.numerics import DTypeName, Problem

if TYPE_CHECKING:
    from worker.cuda.bench.operands import OperandSet
    from worker.cuda.library.cublas import Cublas
    from worker.cuda.runner import CudaRunner

SAMPLES = 11
KERNELS: tuple[tuple[str, DTypeName], ...] = (("hopper_bf16", "bfloat16"), ("hopper_fp16", "float16"))
SHAPES = ((8192, 8192, 16_384), (8192, 8192, 32_768), (8192, 8192, 90_000), (12_288,) * 3, (16_384,) * 3)
LIBRARY = ("cublas", "cublas_tuned")


def puts(runner: CudaRunner, cublas: Cublas, problem: Problem, name: str) -> dict[str, Put]:
    """Ways to make the product, by their names in a row."""
    from worker.cuda.launch import prepare

    kernel = cuda_kernel(name)
    config = kernel.resolve_config(NO_CONFIG, problem, runner.device.traits)
    in_step, apart = (
        prepare(runner.compiler, each, config, problem) for each in (kernel, replace(kernel, workspace=None))
    )

    def by_library(library: str, at: OperandSet) -> None:
        cublas.multiply(library, problem, at.a, at.b, at.c)

    ways: dict[str, Put] = {
        "in_step": lambda at: in_step.launch(at.a, at.b, at.c),
        "apart": lambda at: apart.launch(at.a, at.b, at.c),
    }
    return ways | {library: partial(by_library, library) for library in LIBRARY}


def measured(runner: CudaRunner, shapes: Sequence[tuple[int, int, int]]) -> Iterator[Mapping[str, Any]]:
    """A row for each kernel and shape: times in milliseconds."""
    from worker.cuda.bench.operands import random_set
    from worker.cuda.library.cublas import Cublas

    sampler, cublas = sampler_of(runner), Cublas(runner.compiler)
    for name, dtype in KERNELS:
        for m, n, k in shapes:
            problem = Problem(m, n, k, dtype)
            ways = puts(runner, cublas, problem, name)
            times = median_ms(sampler, list(ways.values()), random_set(runner.compiler, problem, DataSpec()), SAMPLES)
            ms = {way: round(time, 5) for way, time in zip(ways, times, strict=True)}
            yield {"kernel": name, "dtype": dtype, "m": m, "n": n, "k": k, "ms": ms}


def main() -> None:
    from worker.cuda.runner import CudaRunner

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    runner = CudaRunner(Settings(device="gpu:0"))
    record(asked.out, runner.device.name, measured(runner, SHAPES))


if __name__ == "__main__":
    main()
