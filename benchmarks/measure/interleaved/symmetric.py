"""Measures symmetric products X·Xᵀ on a GPU: one triangle, mirrored; compared with the whole product by the same
kernel, cuBLAS's product, and cuBLAS's `syrk` if it has one for the type.

    python -m benchmarks.measure.interleaved.symmetric --out benchmarks/results/h200_symmetric.json

Times are medians of alternating samples with a cold cache; launches are queued before they are timed. `syrk` leaves the
other triangle unchanged, which ours does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure.interleaved.launches import compile_all, job_config
from benchmarks.measure.interleaved.timing import Launch, cuda_kernel, rounded, run_by_size, sampler_of, times_ms
from jobs.benchmarks.spec import DataSpec
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import DTypeName, Problem
from kernels.model.triangle import triangle_flops, whole
from kernels.selection.triangles import computes_triangle

if TYPE_CHECKING:
    from worker.cuda.bench.operands import OperandSet
    from worker.cuda.library.cublas import Cublas
    from worker.cuda.runner import CudaRunner

SIZES, SAMPLES = (4096, 8192), 9
KERNELS: tuple[tuple[str, DTypeName, str], ...] = (
    ("hopper_bf16", "bfloat16", "cublas"),
    ("hopper_fp16", "float16", "cublas"),
    ("hopper_tf32", "float32", "cublas_tf32"),
    ("hopper_int8", "int8", "cublas"),
    ("hopper_fp32", "float32", "cublas"),
    ("tensor_fp64", "float64", "cublas"),
)
IN_EVERY_CONFIG = "hopper_bf16"
SYRK = {"float32": "ssyrk", "float64": "dsyrk"}
TRANSPOSED, LOWER = 1, 0  # cuBLAS's constants


def configs(kernel: CudaKernel, problem: Problem, device: DeviceTraits) -> Iterator[TileConfig]:
    """The config that a job gets, and for one kernel all defaults that compute one triangle."""
    own, every = kernel.resolve_config(NO_CONFIG, problem, device), kernel.name == IN_EVERY_CONFIG
    yield own
    for default in kernel.defaults if every else ():
        config = kernel.resolve_config(default.config)
        if config != own and config.get("edge", 0) == 0 and computes_triangle(kernel, config, problem):
            yield config


def library_syrk(name: str, dtype: DTypeName, problem: Problem) -> Launch | None:
    """cuBLAS's own product of one triangle; None if it has none for the type and accuracy."""
    import cupy
    from cupy_backends.cuda.libs import cublas

    function: Callable[..., None] | None = getattr(cublas, SYRK.get(dtype, ""), None)
    if name != "cublas" or function is None:
        return None
    one, zero = np.ones(1, dtype), np.zeros(1, dtype)
    handle = cupy.cuda.device.get_cublas_handle()

    def launch(at: OperandSet) -> None:
        cublas.setStream(handle, cupy.cuda.get_current_stream().ptr)
        sizes = LOWER, TRANSPOSED, problem.n, problem.k
        of_x, of_c = (at.a.address, at.a.layout.pitch), (at.c.address, at.c.layout.pitch)
        function(handle, *sizes, one.ctypes.data, *of_x, zero.ctypes.data, *of_c)

    return launch


def launches_of(runner: CudaRunner, cublas: Cublas, problem: Problem, name: str, library: str) -> dict[str, Launch]:
    """Launches that compute the product, by their names in a row."""
    from worker.cuda.launch import prepare

    def ours(asked: Problem, config: TileConfig) -> Launch:
        prepared = prepare(runner.compiler, cuda_kernel(name), config, asked)
        return lambda at: prepared.launch(at.a, at.a, at.c)

    kernel, all_of_it, traits = cuda_kernel(name), whole(problem), runner.device.traits
    found = {_named(each): ours(problem, each) for each in configs(kernel, problem, traits)}
    found["whole"] = ours(all_of_it, job_config(runner, kernel, all_of_it))
    found[library] = lambda at: cublas.multiply(library, all_of_it, at.a, at.a, at.c)
    syrk = library_syrk(library, problem.dtype, problem)
    return found if syrk is None else {**found, "syrk": syrk}


def _named(config: TileConfig) -> str:
    sizes = (str(config[each]) for each in ("block_n", "cluster") if each in config)
    return f"triangle {'x'.join(sizes)}"


def measured(runner: CudaRunner, sizes: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """A row for each type and size: times in milliseconds, the triangle in the config that a job gets first."""
    from worker.cuda.bench.operands import random_set
    from worker.cuda.library.cublas import Cublas

    compile_all(runner, cases(runner, sizes))
    sampler, cublas = sampler_of(runner), Cublas(runner.compiler)
    for name, dtype, library in KERNELS:
        for n in sizes:
            problem = Problem(n, n, n, dtype, transpose_b=True, symmetric=True)
            at = random_set(runner.compiler, replace(whole(problem), transpose_b=False), DataSpec())
            launches = launches_of(runner, cublas, problem, name, library)
            times = times_ms(sampler, launches, at, SAMPLES)
            first = next(iter(times.values()))
            gflops = round(triangle_flops(problem) / first / 1e6, 1)
            ms = rounded(times)
            yield {"kernel": name, "n": n, "gflops": gflops, "of_library": round(times[library] / first, 3), "ms": ms}


def cases(runner: CudaRunner, sizes: Sequence[int]) -> Iterator[tuple[CudaKernel, TileConfig, Problem]]:
    """All that is compiled."""
    for name, dtype, _ in KERNELS:
        kernel = cuda_kernel(name)
        for n in sizes:
            problem = Problem(n, n, n, dtype, transpose_b=True, symmetric=True)
            yield from ((kernel, each, problem) for each in configs(kernel, problem, runner.device.traits))
            yield kernel, job_config(runner, kernel, whole(problem)), whole(problem)


if __name__ == "__main__":
    run_by_size(__doc__, SIZES, measured)
