"""Tries a library's algorithms for a product that is likely to be requested again, on operands made for the trial."""

from __future__ import annotations

from jobs.benchmarks.spec import DataSpec
from kernels.model.entry.config import TileConfig
from kernels.model.numerics import Problem
from worker.cuda.bench.operands import random_set
from worker.cuda.compile import Compiler
from worker.cuda.gpu.admission import free_bytes
from worker.cuda.library.cublas import Cublas
from worker.device.cancellable_lock import LockRequest

MAX_SHARE = 4  # at most 1/MAX_SHARE of the free memory is used


def try_ahead(
    compiler: Compiler, cublas: Cublas, kernel: str, config: TileConfig, problem: Problem, device_lock: LockRequest
) -> None:
    """Launches the kernel once, on the current stream, when it has the device; not if its operands would take too much
    memory. Raises KernelUnavailable, DeviceFault."""
    if cublas.is_ready(kernel, config, problem):
        return
    if problem.operand_bytes + problem.product_bytes > free_bytes() // MAX_SHARE:
        return
    made = random_set(compiler, problem, DataSpec())
    device_lock.acquire()
    cublas.tune(kernel, config, problem, (made.a, made.b, made.c))
