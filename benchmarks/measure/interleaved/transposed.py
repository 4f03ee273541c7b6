"""Measures products with B transposed beforehand on a GPU: ours, and cuBLAS by default and tuned.

    python -m benchmarks.measure.interleaved.transposed --out benchmarks/results/h200_transposed.json

Elements of one byte are multiplied fastest if both operands are contiguous along k, and cuBLAS has fast kernels for
nothing else. If B is not, it is transposed within the time of a product. A caller who keeps B transposed, such as
weights, saves that; here nobody pays for it. Times are medians of alternating samples with a cold cache; launches are
queued before they are timed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.measure.interleaved.launches import job_config, kernel_launch, library_launches
from benchmarks.measure.interleaved.timing import Launch, cuda_kernel, rounded, run_by_size, sampler_of, times_ms
from jobs.benchmarks.spec import DataSpec
from kernels.model.numerics import DTypeName, Problem

if TYPE_CHECKING:
    from worker.cuda.library.cublas import Cublas
    from worker.cuda.runner import CudaRunner

SIZES, SAMPLES = (2048, 4096, 8192, 16_384), 11
KERNELS: tuple[tuple[str, DTypeName, Sequence[str]], ...] = (  # our kernel, its type, the library's kernels
    ("hopper_int8", "int8", ("cublas", "cublas_tuned")),
    ("hopper_fp8", "float8_e4m3", ("cublas",)),
    ("hopper_bf16", "bfloat16", ("cublas", "cublas_tuned")),
)


def launches_of(
    runner: CudaRunner, cublas: Cublas, problem: Problem, name: str, libraries: Sequence[str]
) -> dict[str, Launch]:
    """Launches that compute the product, by their names in a row."""
    kernel = cuda_kernel(name)
    own = kernel_launch(runner, kernel, job_config(runner, kernel, problem), problem)
    return {name: own} | library_launches(cublas, problem, libraries)


def measured(runner: CudaRunner, sizes: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """A row for each type and size: milliseconds with B transposed beforehand, and with B as it is."""
    from worker.cuda.bench.operands import random_set
    from worker.cuda.library.cublas import Cublas

    sampler, cublas = sampler_of(runner), Cublas(runner.compiler)
    for name, dtype, libraries in KERNELS:
        for n in sizes:
            lying = Problem(n, n, n, dtype)
            at = random_set(runner.compiler, lying, DataSpec())  # B is square, so it serves as its own transpose
            times: dict[str, dict[str, float]] = {}
            for layout, problem in (("transposed", replace(lying, transpose_b=True)), ("lying", lying)):
                launches = launches_of(runner, cublas, problem, name, libraries)
                times[layout] = rounded(times_ms(sampler, launches, at, SAMPLES))
            yield {"kernel": name, "dtype": dtype, "n": n, **times}


if __name__ == "__main__":
    run_by_size(__doc__, SIZES, measured)
