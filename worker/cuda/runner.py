"""Computes products on one GPU: copies operands, multiplies, checks where it is cheaper, copies the product back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import cupy

from jobs.fleet.workers import Telemetry
from jobs.matrices.interface import Place
from jobs.matrices.slot_memory import SlotMemory
from jobs.settings import Settings
from kernels.model.kernel import DeviceTraits, LibraryKernel
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import DTypeName, Problem
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
from worker.cuda.gpu.kernel_clock import ThreadClock
from worker.cuda.gpu.page_locks import PageLocks
from worker.cuda.gpu.streams import OfThread, stream_of_its_own
from worker.cuda.gpu.telemetry import GpuTelemetry
from worker.cuda.launch import PreparedKernels, kernel_bytes
from worker.cuda.library.cublas import Cublas
from worker.cuda.memory import DeviceMatrix, Matrices, allocate
from worker.cuda.multiplier import Multiplier
from worker.cuda.operand_cache import OfferedProducts, OperandCache
from worker.cuda.pitch import operand_layout, product_layout
from worker.cuda.products.base import ProductInputs
from worker.cuda.products.on_device import CheckRequest, ProductOnDevice
from worker.cuda.products.operands import operands_on_device, stacked_on_device
from worker.cuda.products.small import SmallProduct
from worker.cuda.products.stacked import StackedOnDevice, elements_of, max_alike
from worker.cuda.programs import programs_of_choice
from worker.cuda.scaled.on_device import scales_on_device
from worker.cuda.sources import Program
from worker.cuda.tiles.gpus import Gpu, gang, gpu_indices
from worker.cuda.tiles.tiler import Tiler
from worker.device.cancellable_lock import never_cancelled
from worker.device.operands import HostOperand, StackedOperand
from worker.device.runner import Epilogue, Product
from worker.device.stacked import StackedProduct, StackingRunner
from worker.device.tiles import TiledProduct, TiledTask, Tiling

# Below so many elements in all three matrices the check is quicker on the CPU than a launch and copies are.
HOST_CHECK_ELEMENTS = 3 << 14


class CudaRunner(BenchRunner, StackingRunner):
    """The GPU that CUDA_VISIBLE_DEVICES leaves to this process."""

    jobs_under_way = 4  # one being copied to the device, one computed, two copied back
    max_launch_bytes = 256 << 20  # 16 products of 1024×1024
    light_extent = 1024  # above, the copy back takes as long as all else, and others can be computed meanwhile

    def __init__(self, settings: Settings) -> None:
        with device_faults():
            self.device = gang_info(gpu_indices(settings.device))
            self.compiler = Compiler(settings.kernel_cache_dir, settings.compiled_kernels_dir)
            prepared, self._cublas = PreparedKernels(self.compiler), Cublas(self.compiler)
            composed = ComplexProducts(self.compiler, prepared, self._cublas, self._traits)
            clocks = ThreadClock(self.compiler)
            self._multiplier = Multiplier(self.compiler, prepared, self._cublas, composed, clocks)
            self._fusing = FusedKernels(self.compiler, prepared, self._traits)
            self._telemetry = GpuTelemetry(self.device.uuid)
            self._device_lock, self._of_thread = DeviceCores(), OfThread()
            self._page_locks = PageLocks(cupy.cuda.runtime)
            self.max_bytes_under_way = (device_bytes := cupy.cuda.runtime.memGetInfo()[1]) // 8
            self.cache: OperandCache[DeviceMatrix] = OperandCache(int(settings.device_cache_share * device_bytes))
            self._offered = OfferedProducts(self.cache)
            first = Gpu(0, self.compiler, prepared, self._cublas, composed)
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
        with device_faults(), self._of_thread.stream, self._device_lock.request(check_cancelled) as cores:
            if isinstance(choice.kernel, HostLibraryKernel):
                yield self.tiler.libraries.computed(problem, choice, (a, b), epilogue, place, cores, check_cancelled)
                return
            try:
                yield self._compute(problem, choice, (a, b), epilogue, [place], cores, zero_output=zero_output)
            finally:
                self._of_thread.staging.synchronize()

    def stacks(self, problem: Problem) -> bool:
        return problem.flops > 0 and elements_of(problem) > HOST_CHECK_ELEMENTS

    def max_alike(self, one: Problem) -> int:
        return max_alike(one, HOST_CHECK_ELEMENTS, self.max_launch_bytes)

    @contextmanager
    def compute_stacked(
        self,
        problem: Problem,
        choice: Choice,
        operands: tuple[StackedOperand, StackedOperand],
        places: Sequence[Place | None],
        *,
        check_cancelled: Callable[[], None] = never_cancelled,
        zero_output: bool = False,
    ) -> Iterator[StackedProduct]:
        with device_faults(), self._of_thread.stream, self._device_lock.request(check_cancelled) as cores:
            try:
                product = self._compute(
                    problem, choice, operands, None, places, cores, zero_output=zero_output, items=problem.batch
                )
                assert isinstance(product, StackedOnDevice), "it is not small"
                yield product
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
        places: Sequence[Place | None],
        cores: CoresRequest,
        *,
        zero_output: bool = False,
        items: int = 1,
    ) -> Product:
        """`items`: the number of jobs, whose operands are stacked on the device."""
        check = None if zero_output else CheckRequest(problem, choice.kernel.accuracy[problem.dtype])
        if epilogue is not None:
            operands = (*operands, *epilogue.operands)
        self._offered.next_product([item for each in operands for item in each.items])
        self._admit(problem, choice, operands, epilogue)
        fusable = self._fusing.find(problem, choice, operands, epilogue)
        if fusable is not None:
            fused = self._compute_fused(fusable, operands[2:], places, cores, check)
            fused.made_by = fusable.as_chosen(choice)
            return fused
        inputs = self._upload(problem, operand_types(problem), operands, cores, items)
        p = allocate(product_layout(problem))
        if zero_output:
            p.memory.memset_async(0, p.layout.bytes)
        after = epilogue_on_device(self.compiler, problem, epilogue, p, inputs.on_device[2:])
        scales = scales_on_device(problem, operands, choice.kernel) if problem.scale_columns else None
        matrices = inputs.on_device[0], inputs.on_device[1], p
        product, before, meanwhile = self._delivery(inputs, matrices, after, places, check)
        before()
        kernel_ms = self._multiplier.kernel_ms(
            problem, choice, matrices, epilogue=after, scales=scales, before=before, meanwhile=meanwhile
        )
        product.computed(kernel_ms)
        return product

    def _delivery(
        self,
        inputs: ProductInputs,
        matrices: Matrices,
        after: EpilogueOnDevice | None,
        places: Sequence[Place | None],
        check: CheckRequest | None,
    ) -> tuple[ProductOnDevice | SmallProduct, Callable[[], None], Callable[[], Any]]:
        """How the product comes back, and what is called before each launch of its kernel and while it runs."""
        cores = inputs.cores
        if inputs.elements <= HOST_CHECK_ELEMENTS:
            small = SmallProduct(inputs, matrices[2], after)
            return small, cores.acquire, small.follow
        of_form = StackedOnDevice if inputs.items > 1 else ProductOnDevice
        product = of_form(inputs, matrices, after, self._registered(places))
        inputs.copying.wait()  # others may have the cores until the operands are there
        return product, cores.acquire_in_order, partial(product.follow, check)

    def _compute_fused(
        self,
        fusable: Fusable,
        addends: tuple[HostOperand, ...],
        places: Sequence[Place | None],
        cores: CoresRequest,
        check: CheckRequest | None,
    ) -> ProductOnDevice:
        """A product whose kernel does its epilogue."""
        problem, operands = fusable.problem, (*fusable.operands, *addends)
        inputs = self._upload(problem, fusable.operand_types, operands, cores)
        d = allocate(operand_layout(fusable.fused.output, problem.product_shape))
        scales = scales_on_device(problem, operands, fusable.kernel)
        fused = self._fusing.on_device(fusable, inputs.on_device, d, scales)
        if check is None:
            for written in (d, fused.sums):
                written.memory.memset_async(0, written.layout.bytes)
        product = ProductOnDevice(inputs, (fused.a, fused.b, fused.sums), fused, self._registered(places))
        inputs.copying.wait()
        product.computed(
            self._multiplier.timed_ms(
                fused.launch, before=cores.acquire_in_order, meanwhile=partial(product.follow, check)
            )
        )
        return product

    def _upload(
        self,
        problem: Problem,
        types: Sequence[DTypeName],
        operands: Sequence[HostOperand],
        cores: CoresRequest,
        items: int = 1,
    ) -> ProductInputs:
        """Starts the copies of operands to the device. `types`: their element types there."""
        staging = self._of_thread.staging
        copying = staging.watch()
        upload = stacked_on_device if items > 1 else operands_on_device
        on_device, copies = upload(self.cache, self._page_locks, types, operands, copying, staging)
        return ProductInputs(
            problem, operands, on_device, copying, copies, self._offered, staging, self.compiler, cores, items
        )

    def _registered(self, places: Sequence[Place | None]) -> Sequence[Place]:
        """The places, if CUDA can write to the memory of each."""
        found = [place for place in places if place is not None and self._page_locks.lock(place.memory)]
        return found if len(found) == len(places) else ()

    def _admit(
        self, problem: Problem, choice: Choice, operands: Sequence[HostOperand], epilogue: Epilogue | None
    ) -> None:
        """Raises DoesNotFit, before anything is allocated, if the product cannot fit."""
        of_kernel = self.kernel_bytes(choice, problem)
        need = partial(bytes_needed, problem, operands, self.cache, epilogue, of_kernel)
        admit(choice.kernel.name, need, self._free_all)
