"""The GPU worker's tasks on a device that is played, and that fails as devices do where a product has a certain depth.

CuPy is replaced in the child. What is real is the worker's own: its runner, its memory, its check, its processes.
A file beside the store tells a first run from later ones, and the worker that it happened to from others.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from jobs.fleet.workers import Telemetry
from jobs.settings import Settings, get_settings
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from tests.support.kernels.played_complex import rows_of
from tests.support.workers.gpu_faults import (
    ALLOCATION,
    FREE_BYTES,
    HANGS,
    HUNGRY,
    IS_WRONG_HERE,
    POISONS_ONCE,
    VANISHES,
    WRITES_HALF,
)
from tests.support.workers.simulated import H200
from worker.cpu.blas import multiply
from worker.device.runner import Runner
from worker.process import start, tasks

__all__ = ["tasks"]

OFFERED = ("naive", "split_k", "cublas")
TOO_MANY_BYTES = 1 << 40
SLEEP_S = 60.0


class RuntimeFault(RuntimeError):
    """As CuPy raises it."""

    def __init__(self, status: int, name: str) -> None:
        super().__init__(f"{name}: as played")
        self.status = status


class DriverFault(RuntimeFault): ...


class LibraryFault(RuntimeFault): ...


class Driver:
    """What fails from now on. A sticky error is raised by every call until the process ends."""

    def __init__(self) -> None:
        self.sticky: RuntimeFault | None = None
        self.allocations, self.fails_at = 0, 0
        self.seen: set[int] = set()

    def begin(self, depth: int) -> None:
        """Of a product."""
        self.allocations, self.fails_at = 0, 0 if depth in self.seen else ALLOCATION.get(depth, 0)
        self.seen.add(depth)

    def check(self) -> None:
        if self.sticky is not None:
            raise self.sticky

    def allocate(self, size: int) -> Any:
        from tests.support.played.driver import Memory

        self.check()
        self.allocations += 1
        if self.allocations == self.fails_at:
            raise MemoryError
        return Memory(size)


driver = Driver()


def mark(name: str) -> Path:
    return get_settings().store_dir.parent / name


def happens_here(name: str) -> bool:
    """To the worker that it happens to first."""
    try:
        with mark(name).open("x") as file:
            file.write(str(os.getppid()))
    except FileExistsError:
        return mark(name).read_text() == str(os.getppid())
    return True


def make_played(settings: Settings) -> Runner:
    """Installs CuPy's double, so in the child alone."""
    if mark("vanished").exists() and happens_here("vanished"):
        raise RuntimeFault(100, "cudaErrorNoDevice")
    from tests.support.played import driver as played_driver

    runtime = played_driver.install()
    setattr(runtime, "CUDARuntimeError", RuntimeFault)  # noqa: B010  # it is a class's
    setattr(runtime, "memGetInfo", lambda: (FREE_BYTES, FREE_BYTES))  # noqa: B010
    cupy, libraries = sys.modules["cupy"], MagicMock()
    libraries.cublas.CUBLASError = LibraryFault
    sys.modules["cupy_backends.cuda.libs"] = libraries
    cupy.cuda.alloc, cupy.cuda.driver.CUDADriverError = driver.allocate, DriverFault
    cupy.get_default_memory_pool.return_value.free_bytes.return_value = 0
    return _runner(runtime)


class Untiled:
    """Whatever comes is computed whole, or does not fit."""

    def tiling(self, *_: Any, **__: Any) -> None:
        return None


class FaultyMultiplier:
    """In place of `Multiplier`."""

    def kernel_ms(self, problem: Problem, choice: Choice, matrices: Any, **given: Any) -> float:
        from worker.cuda.launch import kernel_bytes

        driver.allocate(max(1, kernel_bytes(choice, problem, H200.traits)))
        _go_wrong(problem.k)
        driver.check()
        a, b, c = (rows_of(matrix) for matrix in matrices)
        written = problem.m // 2 if problem.k == WRITES_HALF else problem.m
        c[:written] = multiply(problem, a, b)[:written]
        if problem.k == IS_WRONG_HERE and happens_here("wrong"):
            c[0, 0] += np.random.default_rng().integers(1, 1 << 20)
        given["meanwhile"]()  # the copy back
        return 1.0


def _runner(runtime: Any) -> Runner:
    from tests.support.played.driver import Compiler
    from worker.cuda import runner as cuda_runner
    from worker.cuda.gpu.cores import DeviceCores
    from worker.cuda.gpu.page_locks import PageLocks
    from worker.cuda.gpu.streams import OfThread
    from worker.cuda.operand_cache import OfferedProducts, OperandCache

    cuda_runner.HOST_CHECK_ELEMENTS = 1 << 40  # the kernels of the device's own check are not played

    class FaultyRunner(Untiled, cuda_runner.CudaRunner):
        kernels = OFFERED

        def __init__(self) -> None:
            self.device, self.max_bytes_under_way = H200, 1 << 30
            self.compiler, self._of_thread = Compiler(), OfThread()  # type: ignore[assignment]  # as one
            self._device_lock, self._page_locks = DeviceCores(), PageLocks(runtime)
            self.cache = OperandCache(1 << 30)
            self._offered, self._fusing = OfferedProducts(self.cache), MagicMock(find=lambda *_: None)
            self._multiplier = FaultyMultiplier()  # type: ignore[assignment]  # as one

        def telemetry(self) -> Telemetry:
            return Telemetry()

        def compile_ahead(self, _: Any) -> None:
            """Nothing is compiled."""

        def is_compiled(self, choice: Choice, problem: Problem) -> bool:
            return choice.kernel.name in OFFERED

        def kernel_bytes(self, choice: Choice, problem: Problem) -> int:
            is_too_much = problem.k == HUNGRY and choice.kernel.name != "naive"
            return TOO_MANY_BYTES if is_too_much else super().kernel_bytes(choice, problem)

        def _compute(self, problem: Problem, *about: Any, **more: Any) -> Any:
            driver.begin(problem.k)
            return super()._compute(problem, *about, **more)

    return FaultyRunner()


def _go_wrong(depth: int) -> None:
    if depth == POISONS_ONCE and not mark("poisoned").exists():
        mark("poisoned").touch()
        driver.sticky = RuntimeFault(700, "cudaErrorIllegalAddress")
    if depth == HANGS:
        time.sleep(SLEEP_S)
    if depth == VANISHES and not mark("vanished").exists() and happens_here("vanished"):
        driver.sticky = DriverFault(100, "CUDA_ERROR_NO_DEVICE")


setattr(start, "make_runner", make_played)  # noqa: B010  # of the module
setattr(start, "NOT_READY_PAUSE_S", 0.5)  # noqa: B010  # for a test, that is long
