"""Launches a library's products before they are requested, on operands made for that: to try its algorithms, or so that
it loads its functions."""

from __future__ import annotations

from jobs.benchmarks.spec import DataSpec
from kernels.model.entry.config import TileConfig
from kernels.model.numerics import Problem
from worker.cuda.bench.operands import random_set
from worker.cuda.compile import Compiler
from worker.cuda.gpu.admission import free_bytes
from worker.cuda.library.cublas import Cublas
from worker.cuda.memory import allocate
from worker.cuda.pitch import operand_layout, product_layout, stored_shapes
from worker.device.cancellable_lock import LockRequest

MAX_SHARE = 4  # at most 1/MAX_SHARE of the free memory is used


def try_ahead(
    compiler: Compiler, cublas: Cublas, kernel: str, config: TileConfig, problem: Problem, device_lock: LockRequest
) -> None:
    """Launches the kernel once, on the current stream, when it has the device; not if its operands would take too much
    memory. Raises KernelUnavailable, DeviceFault."""
    if cublas.is_ready(kernel, config, problem):
        return
    if _is_large(problem):
        return
    made = random_set(compiler, problem, DataSpec())
    device_lock.acquire()
    cublas.tune(kernel, config, problem, (made.a, made.b, made.c))


def launch_ahead(cublas: Cublas, kernel: str, problem: Problem) -> None:
    """Launches the kernel once, on the current stream, on whatever the memory holds; not if that would take too much.
    Raises KernelUnavailable, cupy's CUBLASError."""
    if cublas.has_multiplied(kernel, problem) or _is_large(problem):
        return
    a, b = (allocate(operand_layout(problem.dtype, shape)) for shape in stored_shapes(problem))
    cublas.multiply(kernel, problem, a, b, allocate(product_layout(problem)))


def _is_large(problem: Problem) -> bool:
    return problem.operand_bytes + problem.product_bytes > free_bytes() // MAX_SHARE
