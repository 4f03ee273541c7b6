"""Products by cuBLASMp on all GPUs of this process: a thread for each, a rank of the library in each thread.

Until the GPUs meet, one that fails stops the others, and the product can be retried. Then, until they part, they wait
for each other inside the library, which cannot be cancelled, and use each other's memory: a failure ends the process,
and nothing is freed before. What can fail on one GPU alone is done before they meet, or after they have parted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Barrier, BrokenBarrierError
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
from worker.cuda.library.cublas_mp import CublasMp, MpProduct, Operand, library
from worker.cuda.library.nccl import allocate, communicators, free

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
            with self.joined(product):
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
        all do together they do `joined`."""
        if not self._ranks:
            self._connect(check_cancelled)
        parts = Parts(problem, len(self._devices))

        def run(rank: int) -> None:
            with self._on(rank), RankProduct(self._ranks[rank], parts, rank) as product:
                call(rank, product)

        self._together(run, check_cancelled, limit_s)

    @contextmanager
    def joined(self, product: RankProduct) -> Iterator[None]:
        """A context that all GPUs enter and leave together, to launch in. Raises BrokenBarrierError if another failed;
        DeviceFault for whatever fails in it."""
        self.wait()
        with _all_or_none():
            product.register()
            yield
            self.wait()  # until then others may use this one's workspace
            product.deregister()
        self.wait()  # one that fails from here on keeps none from deregistering

    def wait(self) -> None:
        """Waits for all other GPUs; called in the thread of one. Raises BrokenBarrierError if one of them failed."""
        self._barrier.wait()

    def _connect(self, check_cancelled: Callable[[], None]) -> None:
        """Once, by the first product."""
        library()  # without it, there is nothing to connect for
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

        self._barrier.reset()  # and not at the end: after a fault, one that comes to it late must not wait there
        run_together([partial(run, rank) for rank in range(len(self._devices))], check_cancelled, limit_s)

    @contextmanager
    def _on(self, rank: int) -> Iterator[None]:
        """Makes that GPU the current one, with its stream."""
        with device_faults(), cupy.cuda.Device(self._devices[rank]), self._streams[rank]:
            yield


@contextmanager
def _all_or_none() -> Iterator[None]:
    """A context for steps that all GPUs do together. Raises DeviceFault for any error but that another GPU failed."""
    try:
        with device_faults():
            yield
    except (DeviceFault, BrokenBarrierError):
        raise
    except Exception as error:
        raise DeviceFault(f"A GPU failed while all multiplied: {error}; its worker starts again.") from error


class RankProduct:
    """One GPU's parts of the matrices, and its share of the work, as long as the context lasts."""

    def __init__(self, rank: CublasMp, parts: Parts, number: int) -> None:
        self._problem, self._itemsize = parts.problem, DTYPES[parts.problem.dtype].itemsize
        self._parts = parts.a(number), parts.b(number), parts.c(number)
        self._is_joined = False  # then others may use what this one has
        with ExitStack() as held:
            held.callback(cupy.get_default_memory_pool().free_all_blocks)
            # Of A, B and C.
            self.memory = [cupy.cuda.alloc(part.elements * self._itemsize) for part in self._parts]
            held.callback(self.memory.clear)
            for part, memory in zip(self._parts, self.memory, strict=True):
                memory.memset_async(0, part.elements * self._itemsize)
            self._product = self._described(rank, parts)
            held.callback(self._product.close)
            on_device, on_host = self._product.workspace_bytes
            cupy.get_default_memory_pool().free_all_blocks()
            self._workspace = allocate(max(on_device, 1)), np.empty(max(on_host, 1), np.uint8)
            held.callback(free, self._workspace[0])
            self._held = held.pop_all()

    def _described(self, rank: CublasMp, parts: Parts) -> MpProduct:
        problem, (of_b, of_a, of_c) = parts.problem, parts.described()
        at_a, at_b, at_c = (int(memory.ptr) for memory in self.memory)
        left, right = Operand(of_b, problem.transpose_b, at_b), Operand(of_a, problem.transpose_a, at_a)
        return MpProduct(rank, problem.dtype, parts.k, left, right, Operand(of_c, False, at_c))

    def upload(self, a: Array, b: Array) -> None:
        for array, part, memory in zip((a, b), self._parts[:2], self.memory[:2], strict=True):
            self._start_copy(array, part, int(memory.ptr), to_device=True)
        cupy.cuda.get_current_stream().synchronize()

    def register(self) -> None:
        self._is_joined = True
        self._product.register(self._workspace[0])

    def launch_s(self) -> float:
        """Multiplies this GPU's share and returns the seconds. Called for all GPUs at once, each in its thread."""
        on_device, on_host = self._workspace
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        self._product.launch(on_device, int(on_host.ctypes.data))
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end)) / 1e3

    def deregister(self) -> None:
        self._product.deregister(self._workspace[0])
        self._is_joined = False

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
        if isinstance(error, DeviceFault) or self._is_joined:
            return  # the devices may never be done, and their process ends
        cupy.cuda.get_current_stream().synchronize()
        self._held.close()
