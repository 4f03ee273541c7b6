"""Roofs of products as a library reaches them: the best of cuBLAS over several sizes, on normal data.

A tensor core's roof by arithmetic is far above what the power cap lets it do on such data; this one is in reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import cupy

from jobs.benchmarks.cases import Case
from jobs.benchmarks.records import Ceiling
from jobs.benchmarks.spec import DataSpec
from jobs.errors import KernelUnavailable, OutOfDeviceMemory
from jobs.fleet.workers import DeviceInfo
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG
from kernels.model.numerics import DTYPES, DTypeName, Problem
from worker.cuda.bench.bench import CudaBench
from worker.cuda.bench.ceilings import ceiling, collected, reasoned
from worker.cuda.compile import Compiler
from worker.cuda.library.cublas import Cublas
from worker.device.roof import theoretical_gflops

SIZES = (2048, 4096, 8192, 16384)  # of square products
LONGEST_US = 40_000.0  # of one product: a larger size is not tried
GROWTH = 8  # of the time from one size to the next

ROOFS: tuple[tuple[str, str, DTypeName], ...] = (
    ("tensor_float16", "cublas", "float16"),
    ("tensor_bfloat16", "cublas", "bfloat16"),
    ("tensor_tf32", "cublas_tf32", "float32"),
    ("tensor_int8", "cublas", "int8"),
    ("tensor_float8_e4m3", "cublas_fp8_fast", "float8_e4m3"),
    ("gemm_float64", "cublas", "float64"),
)


class LibraryRoofs:
    """The roofs of cuBLAS, measured on the current stream."""

    def __init__(self, compiler: Compiler, cublas: Cublas, device: DeviceInfo) -> None:
        self._compiler, self._cublas, self._device = compiler, cublas, device

    def all(self) -> Iterator[Ceiling]:
        """Each when it has been measured; those that cannot be say why."""
        for name, kernel, dtype in ROOFS:
            yield reasoned(name, "GFLOPS", partial(self._best, name, kernel, dtype))

    def _best(self, name: str, kernel: str, dtype: DTypeName) -> Ceiling:
        reason = BY_NAME[kernel].unsupported_because(self._device.traits, dtype)
        if reason is not None:
            raise KernelUnavailable(reason)
        found: list[Ceiling] = []
        for size in SIZES:
            if not _fits(size, dtype):
                break
            found.append(self._at(name, kernel, Problem(size, size, size, dtype)))
            times = found[-1].time_us
            if times is None or times.median * GROWTH > LONGEST_US:
                break
        if not found:
            raise OutOfDeviceMemory
        return max(found, key=lambda each: each.value or 0.0)

    def _at(self, name: str, kernel: str, problem: Problem) -> Ceiling:
        bench = CudaBench(self._compiler, self._cublas, self._device, problem, DataSpec())
        try:
            prepared = bench.prepare(Case(kernel, NO_CONFIG, problem))
            samples = collected(lambda reps: prepared.sample(reps, "warm"))
        finally:
            bench.close()
            cupy.get_default_memory_pool().free_all_blocks()
        return ceiling(
            name,
            "GFLOPS",
            problem.flops,
            samples,
            theoretical=theoretical_gflops(self._device, BY_NAME[kernel].accuracy[problem.dtype], problem.dtype),
            dtype=problem.dtype,
            note=f"{kernel} at {problem.m}, its best of {SIZES[0]} to {SIZES[-1]}, normal data",
        )


def _fits(size: int, dtype: DTypeName) -> bool:
    """Whether operands, product and, for 1-byte types, the transposed copy take at most half of the free memory."""
    free, _ = cupy.cuda.runtime.memGetInfo()
    return 2 * size * size * (3 * DTYPES[dtype].itemsize + DTYPES[DTYPES[dtype].product].itemsize) <= int(free)
