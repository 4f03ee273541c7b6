"""Products by libraries that take them from the host's memory, on all GPUs of this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.interface import Place
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from worker.cpu.epilogue import add_epilogue
from worker.cpu.runner import CpuProduct
from worker.cuda.from_host.gpu_threads import run_together
from worker.cuda.from_host.mp_gang import MpGang
from worker.cuda.library.cublas_xt import CublasXt
from worker.device.cancellable_lock import LockRequest
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue, Product

STUCK_S, STUCK_TIMES = 60.0, 20  # longest wait: so long, and so many times as long as it should take


class HostLibraries:
    """For one product at a time. `devices` are numbered as in this process."""

    def __init__(self, devices: Sequence[int]) -> None:
        self._devices = devices
        self._gang = MpGang(devices)

    def multiply(
        self,
        choice: Choice,
        problem: Problem,
        a: Array,
        b: Array,
        out: Array,
        check_cancelled: Callable[[], None],
        expected_s: float,
    ) -> float:
        """Writes A·B to `out` (batch, m, n) and returns the seconds that the library took; for cuBLASMp, without
        copies. The library cannot be stopped: what `check_cancelled` raises is raised when it is done with a matrix of
        the batch.

        Raises DeviceFault, OutOfDeviceMemory, KernelUnavailable.
        """
        if not problem.k:
            out[...] = 0
            return 0.0
        one = replace(problem, batch=1, a_batched=False, b_batched=False)
        items = [(_item(a, number), _item(b, number), out[number]) for number in range(problem.batch)]
        limit_s = STUCK_S + STUCK_TIMES * expected_s
        if choice.kernel.name == "cublasmp":
            return sum(self._gang.multiply(one, *item, check_cancelled, limit_s) for item in items)
        began = time.perf_counter()
        by_xt = _XtBatch(self._devices, choice.config["block"], one, items)
        run_together([by_xt.run], partial(by_xt.check, check_cancelled), limit_s, by_xt.done)
        return time.perf_counter() - began

    def computed(
        self,
        problem: Problem,
        choice: Choice,
        operands: tuple[HostOperand, HostOperand],
        epilogue: Epilogue | None,
        place: Place | None,
        device_lock: LockRequest,
        check_cancelled: Callable[[], None],
    ) -> Product:
        """A product in this process's memory, where it is also checked."""
        device_lock.acquire()
        a, b = (operand.elements for operand in operands)
        out = None if place is None else place.elements
        p = out if epilogue is None else None
        if p is None:
            p = np.empty(problem.product_shape, STORAGE_DTYPES[problem.product_dtype])
        whole = p.reshape(problem.batch, problem.m, problem.n)
        kernel_ms = self.multiply(choice, problem, a, b, whole, check_cancelled, 0.0) * 1e3
        c = p if epilogue is None else add_epilogue(problem, epilogue, p, out)
        return CpuProduct(problem, operands, p, c, epilogue, kernel_ms=kernel_ms, place=place, device_lock=device_lock)


class _XtBatch:
    """Products by cuBLASXt, one after the other, in a thread of their own."""

    def __init__(
        self, devices: Sequence[int], block: int, one: Problem, items: Sequence[tuple[Array, Array, Array]]
    ) -> None:
        self._devices, self._block, self._one, self._items = devices, block, one, items
        self._done, self._stopped = 0, False

    def run(self) -> None:
        library, one = CublasXt(self._devices, self._block), self._one
        try:
            for a, b, c in self._items:
                if self._stopped:
                    return
                library.multiply(a, b, c, transpose_a=one.transpose_a, transpose_b=one.transpose_b)
                self._done += 1
        finally:
            library.close()

    def done(self) -> int:
        """How many."""
        return self._done

    def check(self, check_cancelled: Callable[[], None]) -> None:
        """Lets no other product begin where the job is cancelled, and raises what says so."""
        try:
            check_cancelled()
        except BaseException:
            self._stopped = True
            raise


def _item(matrix: Array, number: int) -> Array:
    """One matrix of a batch, or the one that serves the whole batch."""
    return matrix if matrix.ndim == 2 else matrix[number]
