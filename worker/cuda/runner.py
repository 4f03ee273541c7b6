"""Computes products on one GPU: copies operands, multiplies, checks where it is cheaper, copies the product back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import Any

import cupy

from jobs.fleet.workers import Telemetry
from jobs.matrices.interface import Place
from jobs.matrices.slot_memory import SlotMemory
from jobs.settings import Settings
from kernels.model.kernel import CudaKernel, DeviceTraits, LibraryKernel
from kernels.model.kinds.composed import ComposedKernel
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from worker.cuda.bench.bench_runner import BenchRunner
from worker.cuda.bench.trial import try_ahead
from worker.cuda.compile import Compiler
from worker.cuda.complex_products import ComplexProducts
from worker.cuda.epilogue.fusable import Fusable
from worker.cuda.epilogue.fused import FusedKernels
from worker.cuda.epilogue.on_device import EpilogueOnDevice, epilogue_on_device
from worker.cuda.from_host.gang_info import gang_info
from worker.cuda.gpu.admission import admit, bytes_needed, operand_types
from worker.cuda.gpu.cores import CoresRequest, DeviceCores
from worker.cuda.gpu.faults import device_faults
from worker.cuda.gpu.kernel_clock import Meanwhile, ThreadClock
from worker.cuda.gpu.streams import OfThread, stream_of_its_own
from worker.cuda.gpu.telemetry import GpuTelemetry
from worker.cuda.launch import PreparedKernels, kernel_bytes
from worker.cuda.library.cublas import Cublas
from worker.cuda.library.scaled import multiplication
from worker.cuda.memory import DeviceMatrix, allocate, clear_padding
from worker.cuda.operand_cache import Copies, OfferedProducts, OperandCache
from worker.cuda.page_locks import PageLocks
from worker.cuda.pitch import operand_layout, product_layout
from worker.cuda.product import CheckAsked, ProductOnDevice, operands_on_device
from worker.cuda.programs import programs_of_choice
from worker.cuda.scaled.on_device import ScalesOnDevice, scales_on_device
from worker.cuda.small_product import ProductBroughtBack
from worker.cuda.sources import Program
from worker.cuda.tiles.gpus import Gpu, gang, gpu_indices
from worker.cuda.tiles.tiler import Tiler
from worker.device.cancellable_lock import never_cancelled
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue, Product
from worker.device.tiles import TiledProduct, TiledTask, Tiling

# Below so many elements in all three matrices the check is quicker on the CPU than a launch and copies are.
HOST_CHECK_ELEMENTS = 3 << 14


class CudaRunner(BenchRunner):
    """The GPU that CUDA_VISIBLE_DEVICES leaves to this process."""

    jobs_under_way = 4  # one being copied to the device, one computed, two copied back
    light_extent = 1024  # above, the copy back takes as long as all else, and others can be computed meanwhile

    def __init__(self, settings: Settings) -> None:
        with device_faults():
            self.device = gang_info(gpu_indices(settings.device))
            self.compiler = Compiler(settings.kernel_cache_dir, settings.compiled_kernels_dir)
            self._prepared, self._cublas = PreparedKernels(self.compiler), Cublas(self.compiler)
            self._composed = ComplexProducts(self.compiler, self._prepared, self._cublas, self._traits)
            self._fusing = FusedKernels(self.compiler, self._prepared, self._traits)
            self._clocks, self._telemetry = ThreadClock(self.compiler), GpuTelemetry(self.device.uuid)
            self._device_lock, self._of_thread = DeviceCores(), OfThread()
            self._page_locks = PageLocks(cupy.cuda.runtime)
            self.max_bytes_under_way = (device_bytes := cupy.cuda.runtime.memGetInfo()[1]) // 8
            self.cache: OperandCache[DeviceMatrix] = OperandCache(int(settings.device_cache_share * device_bytes))
            self._offered = OfferedProducts(self.cache)
            first = Gpu(0, self.compiler, self._prepared, self._cublas, self._composed)
            gpus = gang(settings, first, self._traits)
            self.tiler = Tiler(settings, lambda: self.device, gpus, self._page_locks)

    def telemetry(self) -> Telemetry:
        return self._telemetry.read()

    def expect(self, memory: SlotMemory) -> None:
        self._page_locks.lock(memory)

    def compile_ahead(self, products: Iterable[tuple[Choice, Problem]]) -> None:
        self.compiler.compile_all({each for product in products for each in self._programs(*product)})

    def is_compiled(self, choice: Choice, problem: Problem) -> bool:
        if not self._cublas.is_ready(choice.kernel.name, choice.config, problem):
            return False
        return all(map(self.compiler.has, self._programs(choice, problem)))

    def make_ready(self, choice: Choice, problem: Problem) -> None:
        super().make_ready(choice, problem)
        if isinstance(choice.kernel, LibraryKernel):
            with device_faults(), stream_of_its_own(), self._device_lock.request(never_cancelled) as device_lock:
                try_ahead(self.compiler, self._cublas, choice.kernel.name, choice.config, problem, device_lock)

    def _traits(self) -> DeviceTraits:
        return self.device.traits

    def _programs(self, choice: Choice, problem: Problem) -> Collection[Program]:
        return programs_of_choice(choice, problem, self.device.traits)

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
        with device_faults(), self._of_thread.stream, self._device_lock.request(check_cancelled) as device_lock:
            if isinstance(choice.kernel, HostLibraryKernel):
                also = epilogue, place, device_lock, check_cancelled
                yield self.tiler.libraries.computed(problem, choice, (a, b), *also)
                return
            try:
                yield self._compute(problem, choice, (a, b), epilogue, place, device_lock, zero_output=zero_output)
            finally:
                self._of_thread.staging.synchronize()

    def tiling(self, problem: Problem, choice: Choice, *, has_epilogue: bool) -> Tiling | None:
        return self.tiler.tiling(problem, choice, has_epilogue=has_epilogue)

    @contextmanager
    def tiled(self, task: TiledTask) -> Iterator[TiledProduct]:
        with device_faults(), self._device_lock.request(task.check_cancelled) as alone:
            alone.acquire()
            self._free_all()
            with self.tiler.tiled(task) as product:
                yield product

    def kernel_bytes(self, choice: Choice, problem: Problem) -> int:
        return kernel_bytes(choice, problem, self.device.traits)

    def free_memory(self) -> None:
        with device_faults():
            self._free_all()

    def product_ended(self, matrix_id: str, *, awaited: bool) -> None:
        self._offered.ended(matrix_id, awaited=awaited)

    def _compute(
        self,
        problem: Problem,
        choice: Choice,
        operands: tuple[HostOperand, ...],
        epilogue: Epilogue | None,
        place: Place | None,
        device_lock: CoresRequest,
        *,
        zero_output: bool = False,
    ) -> Product:
        checked = None if zero_output else CheckAsked(problem, choice.kernel.accuracy[problem.dtype])
        if epilogue is not None:
            operands = (*operands, *epilogue.operands)
        self._offered.next_product(operands)
        self._admit(problem, choice, operands, epilogue)
        if (asked := self._fusing.find(problem, choice, operands, epilogue)) is not None:
            return self._fused(asked, choice, operands[2:], place, device_lock, checked)
        staging = self._of_thread.staging
        copying, types = staging.watch(), operand_types(problem)
        on_device = operands_on_device(self.cache, self._page_locks, types, operands, copying, staging)
        matrices = on_device[0], on_device[1], allocate(product_layout(problem))
        if zero_output:
            matrices[2].memory.memset_async(0, matrices[2].layout.bytes)
        after = epilogue_on_device(self.compiler, problem, epilogue, matrices[2], on_device[2:])
        scales = scales_on_device(problem, operands, choice.kernel) if problem.scale_columns else None
        copies = Copies(self.cache, operands, on_device)
        elements = problem.batch * problem.m * problem.n + sum(prod(each.shape) for each in operands)
        if elements <= HOST_CHECK_ELEMENTS:
            more = self._offered, staging, device_lock
            small = ProductBroughtBack(problem, operands, copies, matrices[2], after, *more)
            device_lock.acquire()
            kernel_ms = self._multiplied_ms(problem, choice, matrices, after, device_lock.acquire, small.follow, scales)
            small.computed(kernel_ms, copying)
            return small
        to = place if place is not None and self._page_locks.lock(place.memory) else None
        also = self._offered, staging, self.compiler, to, device_lock
        product = ProductOnDevice(problem, operands, copies, matrices, after, *also)
        copying.wait()  # others may have the cores until the operands are there
        device_lock.acquire_in_order()
        before, meanwhile = device_lock.acquire_in_order, partial(product.follow, checked)
        kernel_ms = self._multiplied_ms(problem, choice, matrices, after, before, meanwhile, scales)
        product.computed(kernel_ms, copying)
        return product

    def _fused(
        self,
        asked: Fusable,
        choice: Choice,
        addends: tuple[HostOperand, ...],
        place: Place | None,
        device_lock: CoresRequest,
        checked: CheckAsked | None,
    ) -> Product:
        """A product whose kernel does its epilogue."""
        staging, problem, operands = self._of_thread.staging, asked.problem, (*asked.operands, *addends)
        copying, types = staging.watch(), asked.operand_types
        on_device = operands_on_device(self.cache, self._page_locks, types, operands, copying, staging)
        d = allocate(operand_layout(asked.fused.output, problem.product_shape))
        scales = scales_on_device(problem, operands, asked.kernel)
        fused = self._fusing.on_device(asked, on_device, d, scales)
        for written in (d, fused.sums) if checked is None else ():
            written.memory.memset_async(0, written.layout.bytes)
        to = place if place is not None and self._page_locks.lock(place.memory) else None
        also = self._offered, staging, self.compiler, to, device_lock
        copies = Copies(self.cache, operands, on_device)
        product = ProductOnDevice(problem, operands, copies, (fused.a, fused.b, fused.sums), fused, *also)
        product.made_by = asked.as_chosen(choice)
        copying.wait()
        before, meanwhile = device_lock.acquire_in_order, partial(product.follow, checked)
        kernel_ms = self._clocks.clock.kernel_ms(fused.launch, is_loaded=True, meanwhile=meanwhile, before=before)
        product.computed(kernel_ms, copying)
        return product

    def _multiplied_ms(
        self,
        problem: Problem,
        choice: Choice,
        matrices: tuple[DeviceMatrix, DeviceMatrix, DeviceMatrix],
        epilogue: EpilogueOnDevice | None,
        before: Callable[[], None],
        meanwhile: Meanwhile | None = None,
        scales: ScalesOnDevice | None = None,
    ) -> float:
        """How long the device took. The product is done when this returns. `before` and `meanwhile` are as in
        `KernelClock.kernel_ms`."""
        kernel, is_loaded = choice.kernel, True
        if isinstance(kernel, ComposedKernel):
            multiply = self._composed.launcher(choice, problem, matrices)
        elif isinstance(kernel, CudaKernel):
            argument = None if scales is None else scales.argument
            multiply = partial(self._prepared.get(kernel, choice.config, problem).launch, *matrices, scales=argument)
        elif scales is not None:
            multiply = multiplication(self.compiler, self._cublas, kernel, problem, scales, matrices)
        else:
            self._cublas.tune(kernel.name, choice.config, problem, matrices)
            is_loaded = self._cublas.has_multiplied(kernel.name, problem)
            multiply = partial(self._cublas.multiply, kernel.name, problem, *matrices, choice.config)

        def launch() -> None:
            multiply()
            if epilogue is not None:
                epilogue.launch()

        def followed() -> Any:
            if not isinstance(kernel, CudaKernel):
                clear_padding(matrices[2])  # the padding is uninitialised, and the product may be an operand later
            return None if meanwhile is None else meanwhile()

        kernel_ms = self._clocks.clock.kernel_ms(launch, is_loaded=is_loaded, meanwhile=followed, before=before)
        if self._composed.is_spoilt(kernel, matrices[2]):
            multiply = self._composed.launcher(choice, problem, matrices)
            kernel_ms += self._clocks.clock.kernel_ms(launch, is_loaded=False, meanwhile=followed, before=before)
        return kernel_ms

    def _admit(
        self, problem: Problem, choice: Choice, operands: Sequence[HostOperand], epilogue: Epilogue | None
    ) -> None:
        """Raises DoesNotFit, before anything is allocated, if the product cannot fit."""
        of_kernel = self.kernel_bytes(choice, problem)
        need = partial(bytes_needed, problem, operands, self.cache, epilogue, of_kernel)
        admit(choice.kernel.name, need, self._free_all)
