"""Products by cuBLASMp on all GPUs of this process: a thread for each, a rank of the library in each thread.

Until the library starts, a failing GPU stops the others, and the product can be retried. After that the GPUs wait for
each other inside the library, which cannot be cancelled: a failure ends the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Barrier
from typing import Any

import cupy
import numpy as np

from jobs.errors import DeviceFault
from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES, Problem
from worker.cuda.from_host.copies import Copy, start_copy
from worker.cuda.from_host.gpu_threads import run_together
from worker.cuda.from_host.parts import LocalPart, Parts
from worker.cuda.gpu.faults import device_faults
from worker.cuda.library.cublas_mp import CublasMp, MpProduct, Operand
from worker.cuda.library.nccl import communicators

CONNECTED_S = 120.0  # longest wait for the GPUs to find each other


class MpGang:
    """For one product at a time. `devices` are numbered as in this process."""

    def __init__(self, devices: Sequence[int]) -> None:
        self._devices = devices
        self.count = len(devices)
        self._streams: dict[int, Any] = {}  # of the ranks, as long as they live
        self._ranks: dict[int, CublasMp] = {}
        self._barrier = Barrier(len(devices))

    def multiply(
        self, problem: Problem, a: Array, b: Array, c: Array, check_cancelled: Callable[[], None], limit_s: float
    ) -> float:
        """C = A·B, each (rows, columns) in the host's memory as it is stored. Seconds of the slowest GPU, without
        copies. Raises DeviceFault, OutOfDeviceMemory, KernelUnavailable, and at the end what `check_cancelled`
        raises."""
        spent_s = [0.0] * len(self._devices)

        def compute(rank: int, product: RankProduct) -> None:
            product.upload(a, b)
            self.wait()
            spent_s[rank] = product.launch_s()
            product.download(c)

        self.on_each(problem, compute, check_cancelled, limit_s)
        return max(spent_s)

    def on_each(
        self,
        problem: Problem,
        call: Callable[[int, RankProduct], None],
        check_cancelled: Callable[[], None],
        limit_s: float,
    ) -> None:
        """Has each GPU called with its rank and its share, in a thread of its own and in the context of a stream. What
        all do together they begin after `wait`."""
        if not self._ranks:
            self._connect(check_cancelled)
        parts = Parts(problem, len(self._devices))

        def run(rank: int) -> None:
            with self._on(rank), RankProduct(self._ranks[rank], parts, rank) as product:
                call(rank, product)

        self._together(run, check_cancelled, limit_s)

    def wait(self) -> None:
        """Waits for all other GPUs; called in the thread of one. Raises BrokenBarrierError if one of them failed."""
        self._barrier.wait()

    def _connect(self, check_cancelled: Callable[[], None]) -> None:
        """Once, by the first product."""
        found: list[Any] = []
        run_together([lambda: found.extend(communicators(self._devices))], check_cancelled, CONNECTED_S)

        def join(rank: int) -> None:
            with cupy.cuda.Device(self._devices[rank]), _all_or_none():
                self._streams[rank] = stream = cupy.cuda.Stream(non_blocking=True)
                self._ranks[rank] = CublasMp(found[rank], len(self._devices), stream.ptr)

        self._together(join, check_cancelled, CONNECTED_S)

    def _together(self, call: Callable[[int], None], check_cancelled: Callable[[], None], limit_s: float) -> None:
        def run(rank: int) -> None:
            try:
                call(rank)
            except BaseException:
                self._barrier.abort()  # those that wait there go no further
                raise

        try:
            run_together([partial(run, rank) for rank in range(len(self._devices))], check_cancelled, limit_s)
        finally:
            self._barrier.reset()

    @contextmanager
    def _on(self, rank: int) -> Iterator[None]:
        """Makes that GPU the current one, with its stream."""
        with device_faults(), cupy.cuda.Device(self._devices[rank]), self._streams[rank]:
            yield


@contextmanager
def _all_or_none() -> Iterator[None]:
    """A context for steps that all GPUs do together. Raises DeviceFault for any error."""
    try:
        with device_faults():
            yield
    except DeviceFault:
        raise
    except Exception as error:
        raise DeviceFault(f"A GPU failed while all multiplied: {error}; its worker starts again.") from error


class RankProduct:
    """One GPU's parts of the matrices, and its share of the work, as long as the context lasts."""

    def __init__(self, rank: CublasMp, parts: Parts, number: int) -> None:
        self._problem, self._itemsize = parts.problem, DTYPES[parts.problem.dtype].itemsize
        self._parts = parts.a(number), parts.b(number), parts.c(number)
        # Of A, B and C.
        self.memory = [cupy.cuda.alloc(part.elements * self._itemsize) for part in self._parts]
        for part, memory in zip(self._parts, self.memory, strict=True):
            memory.memset_async(0, part.elements * self._itemsize)
        problem, (of_b, of_a, of_c) = parts.problem, parts.described()
        at_a, at_b, at_c = (int(memory.ptr) for memory in self.memory)
        left, right = Operand(of_b, problem.transpose_b, at_b), Operand(of_a, problem.transpose_a, at_a)
        self._product = MpProduct(rank, problem.dtype, parts.k, left, right, Operand(of_c, False, at_c))
        on_device, on_host = self._product.workspace_bytes
        self._workspace = cupy.cuda.alloc(max(on_device, 1)), np.empty(max(on_host, 1), np.uint8)

    def upload(self, a: Array, b: Array) -> None:
        for array, part, memory in zip((a, b), self._parts[:2], self.memory[:2], strict=True):
            self._start_copy(array, part, int(memory.ptr), to_device=True)
        cupy.cuda.get_current_stream().synchronize()

    def launch_s(self) -> float:
        """Multiplies this GPU's share and returns the seconds. Called for all GPUs at once, each in its thread."""
        on_device, on_host = self._workspace
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        with _all_or_none():
            start.record()
            self._product.launch(int(on_device.ptr), int(on_host.ctypes.data))
            end.record()
            end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end)) / 1e3

    def download(self, c: Array) -> None:
        self._start_copy(c, self._parts[2], int(self.memory[2].ptr), to_device=False)
        cupy.cuda.get_current_stream().synchronize()

    def _start_copy(self, array: Array, part: LocalPart, address: int, *, to_device: bool) -> None:
        if not part.rows.size * part.columns.size:
            return
        row_bytes = array.shape[1] * self._itemsize
        host = int(array.ctypes.data) + part.rows.start * row_bytes + part.columns.start * self._itemsize
        width, pitch = part.columns.size * self._itemsize, part.pitch * self._itemsize
        copy = Copy(address, pitch, host, row_bytes, width, part.rows.size)
        start_copy(copy, cupy.cuda.get_current_stream().ptr, to_device=to_device)

    def __enter__(self) -> RankProduct:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, DeviceFault):
            return  # the device may never be done, and its process ends
        cupy.cuda.get_current_stream().synchronize()
        self._product.close()
        self.memory.clear()
        del self._workspace
        cupy.get_default_memory_pool().free_all_blocks()
