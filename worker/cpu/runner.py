"""Products on the CPU, by numpy's BLAS in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from jobs.benchmarks.records import Ceiling
from jobs.benchmarks.spec import DataSpec
from jobs.fleet.workers import Telemetry
from jobs.formats.elements import Array
from jobs.matrices.digest import as_bytes, digest_of, part_count, part_digests
from jobs.matrices.interface import MatrixWriter, Place
from jobs.matrices.slot_memory import SlotMemory
from jobs.models import Measured
from jobs.settings import Settings
from kernels.model.numerics import Problem
from kernels.model.outputs import delivered_of
from kernels.selection.candidates import Choice
from kernels.tiles.choice import too_deep, whole_bytes, with_epilogue
from kernels.tiles.estimate import best_plan, estimate
from worker.cpu.bench import CpuBench
from worker.cpu.ceilings import cpu_ceilings
from worker.cpu.device import available_bytes, cpu_info, usable_cores
from worker.cpu.environment import host_environment
from worker.cpu.epilogue import add_epilogue
from worker.cpu.free_memory import check_free_memory
from worker.cpu.grouped import multiply_grouped
from worker.cpu.kernels import CPU_KERNELS
from worker.cpu.scaled import multiply_scaled
from worker.cpu.tiles import CPU_SPEEDS, CpuTiledProduct, tile_bytes
from worker.device.bench import Bench
from worker.device.cancellable_lock import CancellableLock, LockRequest, never_cancelled
from worker.device.host_lock import LongWait
from worker.device.operands import HostOperand
from worker.device.runner import DoesNotFit, Epilogue, Product, operands_as_checked, verify_on_host, wrong_on_host
from worker.device.scaled import ScaledOperand
from worker.device.tiles import TiledProduct, TiledTask, Tiling, TilingRunner, described

# Products of fewer operations (about 360×360×360) use one thread: waking others costs more than it saves, and takes
# cores from the API and Redis on this host.
ONE_THREAD_FLOPS = 100e6
# Of the matrices of a light product that shares a launch. With larger ones a launch leaves the processor's caches, and
# takes longer than its products one by one.
MAX_ALIKE_BYTES = 64 << 10


class CpuRunner(TilingRunner):
    """The CPU's kernels in this process."""

    jobs_under_way = 1  # a product uses all cores
    max_launch_bytes = 4 << 20
    light_extent = 256  # some milliseconds

    def __init__(self, settings: Settings) -> None:
        self._threads = settings.cpu_threads or usable_cores()
        self._blas = ThreadpoolController().select(user_api="blas").lib_controllers
        self._use_threads(self._threads)
        self.device = cpu_info(self._threads)
        self._device_lock = CancellableLock()
        self.max_bytes_under_way = (available_bytes() or 0) // 8
        self._device_bytes = settings.device_memory_bytes

    def _use_threads(self, count: int) -> None:
        for library in self._blas:
            library.set_num_threads(count)

    def expect(self, memory: SlotMemory) -> None:
        """Nothing to prepare: a CPU maps the memory when it needs it."""

    def compile_ahead(self, products: Iterable[tuple[Choice, Problem]]) -> None:
        """BLAS is compiled."""

    def max_alike(self, one: Problem) -> int:
        each_bytes = max(1, one.operand_bytes + one.product_bytes)
        return self.max_launch_bytes // each_bytes if each_bytes <= MAX_ALIKE_BYTES else 1

    def is_compiled(self, choice: Choice, problem: Problem) -> bool:
        return True

    @contextmanager
    def compute(
        self,
        problem: Problem,
        choice: Choice,
        a: HostOperand,
        b: HostOperand,
        place: Place | None = None,
        *,
        epilogue: Epilogue | None = None,
        check_cancelled: Callable[[], None] = never_cancelled,
        zero_output: bool = False,
    ) -> Iterator[Product]:
        multiply = _multiplication(problem, choice, a, b)
        out = None if place is None else place.elements
        with self._device_lock.request(check_cancelled) as device_lock:
            device_lock.acquire()
            if need := _room_needed(problem, epilogue, place):
                check_free_memory(need, "The product needs")
            self._use_threads(self._threads if problem.flops >= ONE_THREAD_FLOPS else 1)
            with LongWait():
                started = time.perf_counter()
                p = multiply(out if epilogue is None else None)
                c = p if epilogue is None else add_epilogue(problem, epilogue, p, out)
                kernel_ms = (time.perf_counter() - started) * 1e3
            yield CpuProduct(problem, (a, b), p, c, epilogue, kernel_ms=kernel_ms, place=place, device_lock=device_lock)

    def tiling(self, problem: Problem, choice: Choice, *, has_epilogue: bool) -> Tiling | None:
        if self._device_bytes is None or whole_bytes(problem, tile_bytes, has_epilogue) <= self._device_bytes:
            return None
        of_tile = with_epilogue(tile_bytes) if has_epilogue else tile_bytes
        plan = best_plan(problem, CPU_SPEEDS, device_bytes=self._device_bytes, tile_bytes=of_tile)
        if plan is None:
            raise DoesNotFit(too_deep(problem, self._device_bytes))
        return described(plan, estimate(plan, CPU_SPEEDS, of_tile), "in this process")

    @contextmanager
    def tiled(self, task: TiledTask) -> Iterator[TiledProduct]:
        with self._device_lock.request(task.check_cancelled) as device_lock:
            device_lock.acquire()
            self._use_threads(self._threads)
            yield CpuTiledProduct(task)

    def kernel_bytes(self, choice: Choice, problem: Problem) -> int:
        return 0

    def free_memory(self) -> None:
        """Nothing to free: a CPU keeps no operands."""

    def product_ended(self, matrix_id: str, *, awaited: bool) -> None:
        """Nothing to drop: the product is in the store, which is mapped."""

    def telemetry(self) -> Telemetry:
        return Telemetry()

    @contextmanager
    def bench(self, problem: Problem, data: DataSpec, *, alone: bool = True) -> Iterator[Bench]:
        check_free_memory(problem.product_bytes + problem.operand_bytes, "The product needs")
        self._use_threads(self._threads if problem.flops >= ONE_THREAD_FLOPS else 1)
        yield CpuBench(problem, data)

    def environment(self) -> dict[str, Any]:
        return host_environment() | {"blas_threads": self._threads, "versions": self.device.versions}

    def ceilings(self) -> Iterator[Ceiling]:
        self._use_threads(self._threads)
        return cpu_ceilings(self._threads)


def _multiplication(
    problem: Problem, choice: Choice, a: HostOperand, b: HostOperand
) -> Callable[[Array | None], Array]:
    """Writes the product into an array, or into a new one. Operands are opened now."""
    if isinstance(a, ScaledOperand) and isinstance(b, ScaledOperand):
        return partial(multiply_scaled, problem, a, b)
    if problem.group_sizes:
        return partial(multiply_grouped, CPU_KERNELS[choice.kernel.name], problem, a.elements, b.elements)
    return partial(CPU_KERNELS[choice.kernel.name], problem, a.elements, b.elements)


def _room_needed(problem: Problem, epilogue: Epilogue | None, place: Place | None) -> int:
    """Bytes beside operands and place: A·B where it is not what is delivered, and that where it has no place."""
    if epilogue is None:
        return problem.product_bytes if place is None else 0
    return problem.product_bytes + (delivered_of(problem, epilogue.output).bytes if place is None else 0)


class CpuProduct(Product):
    """Everything in this process's memory. `p` is A·B, and `c` what is delivered: the same without an epilogue."""

    def __init__(
        self,
        problem: Problem,
        operands: Sequence[HostOperand],
        p: Array,
        c: Array,
        epilogue: Epilogue | None = None,
        *,
        kernel_ms: float,
        place: Place | None = None,
        device_lock: LockRequest,
    ) -> None:
        self.device_lock = device_lock
        self._problem, self._p, self._c, self._epilogue = problem, p, c, epilogue
        self._operands = operands if epilogue is None else (*operands, *epilogue.operands)
        self._place = place
        self._digest = digest_of(c)
        self._kernel_ms = kernel_ms
        self.matrices = operands_as_checked(problem, operands[0], operands[1], p)

    @property
    def digest(self) -> int:
        return self._digest

    def wrong_elements(self) -> int:
        return wrong_on_host(self._problem, self._epilogue, self._p, self._c)

    def verify_operands(self) -> None:
        verify_on_host(self._operands)

    def keep_operands(self) -> None:
        """Nothing to keep: operands are mapped from the store, not copied."""

    def drop_operands(self) -> None:
        """Nothing to drop: there are no copies."""

    def offer(self, matrix_id: str) -> None:
        """Nothing to offer: there is no copy."""

    def chunks(self) -> Iterator[memoryview]:
        yield self._c.reshape(-1).view(np.uint8).data

    def store(self, writer: MatrixWriter) -> None:
        if self._place is None:
            super().store(writer)
        else:
            lies_there = as_bytes(self._place.elements)
            writer.fill(part_digests(lies_there, part_count(lies_there.nbytes)))

    @property
    def measured(self) -> Measured:
        return Measured(h2d_ms=0.0, kernel_ms=self._kernel_ms, d2h_ms=0.0)
