"""Measures products with a long k on a GPU: with clusters kept in step and without, and cuBLAS by default and tuned.

    python -m benchmarks.measure.interleaved.deep --out benchmarks/results/h100_deep.json

The longest are tiles of a product out of core. Times are medians of alternating samples with a cold cache; launches are
queued before they are timed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchmarks.measure.interleaved.launches import compile_all, job_config, kernel_launch, library_launches
from benchmarks.measure.interleaved.timing import Launch, cuda_kernel, rounded, run, sampler_of, times_ms
from jobs.benchmarks.spec import DataSpec
from kernels.entries.hopper.waves import COUNTER
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem

if TYPE_CHECKING:
    from worker.cuda.library.cublas import Cublas
    from worker.cuda.runner import CudaRunner

IN_STEP, APART = "in_step", "apart"
SAMPLES, FEWER_SAMPLES = 11, 5
LONG_FLOPS = 50e12  # larger products take tenths of a second: fewer samples, and the library is not tuned


@dataclass(frozen=True, slots=True)
class Measured:
    """A kernel of ours, the library's entries to compare it with, and sizes (m, n, k)."""

    kernel: str
    dtype: DTypeName
    libraries: tuple[str, ...]
    shapes: tuple[tuple[int, int, int], ...]

    @property
    def problems(self) -> Iterator[Problem]:
        return (Problem(m, n, k, self.dtype) for m, n, k in self.shapes)


OUT_OF_CORE, DEEP, LARGE = (30_208, 18_176, 90_000), (8192, 8192, 90_000), (16_384,) * 3
SHORTER = ((12_288,) * 3, (32_768, 32_768, 4096), (8192, 8192, 32_768), (8192, 8192, 16_384), (8192,) * 3)
TUNED = ("cublas", "cublas_tuned")
MEASURED = (
    Measured("hopper_bf16", "bfloat16", TUNED, (OUT_OF_CORE, DEEP, LARGE, *SHORTER)),
    Measured("hopper_tf32", "float32", ("cublas_tf32", "cublas_tf32_tuned"), (OUT_OF_CORE, DEEP, LARGE)),
    Measured("hopper_int8", "int8", TUNED, (OUT_OF_CORE, DEEP, LARGE)),
    Measured("hopper_fp8", "float8_e4m3", ("cublas",), (OUT_OF_CORE, DEEP, LARGE)),
    Measured("hopper_fp16", "float16", TUNED, (OUT_OF_CORE, DEEP, LARGE, SHORTER[0])),
)


def launches_of(
    runner: CudaRunner, cublas: Cublas, problem: Problem, name: str, libraries: Sequence[str]
) -> dict[str, Launch]:
    """Launches that compute the product, by their names in a row."""
    config = job_config(runner, cuda_kernel(name), problem)
    in_step = replace(cuda_kernel(name), workspace=lambda *_: COUNTER)
    apart = replace(in_step, workspace=None)
    own = {way: kernel_launch(runner, kernel, config, problem) for way, kernel in ((IN_STEP, in_step), (APART, apart))}
    return own | library_launches(cublas, problem, libraries)


def measured(runner: CudaRunner) -> Iterator[Mapping[str, Any]]:
    """A row for each kernel and shape: times in milliseconds."""
    from worker.cuda.bench.operands import random_set
    from worker.cuda.library.cublas import Cublas

    compile_all(runner, cases(runner))
    sampler, cublas = sampler_of(runner), Cublas(runner.compiler)
    for each in MEASURED:
        for problem in each.problems:
            is_long = problem.flops > LONG_FLOPS
            launches = launches_of(
                runner, cublas, problem, each.kernel, each.libraries[:1] if is_long else each.libraries
            )
            at = random_set(runner.compiler, problem, DataSpec())
            samples = FEWER_SAMPLES if is_long else SAMPLES
            ms = rounded(times_ms(sampler, launches, at, samples))
            yield {"kernel": each.kernel, "m": problem.m, "n": problem.n, "k": problem.k, "samples": samples, "ms": ms}


def cases(runner: CudaRunner) -> Iterator[tuple[CudaKernel, TileConfig, Problem]]:
    """All that is compiled: each kernel for its longest product, which is kept in step, and for one that is not."""
    for each in MEASURED:
        kernel, longest = cuda_kernel(each.kernel), next(each.problems)
        config = job_config(runner, kernel, longest)
        yield from ((kernel, config, longest), (kernel, config, replace(longest, k=1)))


if __name__ == "__main__":
    run(__doc__, measured)
