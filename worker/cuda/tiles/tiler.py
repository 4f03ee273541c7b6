"""Decides how a product is computed on this process's GPUs: whole on the first one, in tiles on it, or in tiles on
all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from operator import is_

import cupy

from jobs.errors import DeviceFault
from jobs.fleet.workers import DeviceInfo
from jobs.formats.elements import Array
from jobs.matrices.slot_memory import SlotMemory
from jobs.settings import Settings
from kernels.model.kernel import LibraryKernel
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.selection.candidates import Choice
from kernels.tiles.choice import too_deep, whole_bytes, with_epilogue
from kernels.tiles.estimate import Speeds, best_plan, estimate
from kernels.tiles.plan import TileBytes
from kernels.tiles.rates import measured_flops
from worker.cuda.complex.arrangement import arranged_bytes
from worker.cuda.from_host.libraries import HostLibraries
from worker.cuda.gpu.admission import SPARE_BYTES
from worker.cuda.gpu.page_locks import DEFAULT, PageLocks
from worker.cuda.launch import kernel_bytes
from worker.cuda.pitch import IN_GROUPS, operand_layout, product_layout
from worker.cuda.tiles.by_library import LibraryTiler
from worker.cuda.tiles.gpus import Gpu, free_all
from worker.cuda.tiles.product import CudaTiledProduct
from worker.cuda.tiles.rereads import BLOCK_PARTS
from worker.device.runner import DoesNotFit, Epilogue
from worker.device.tiles import TiledProduct, TiledTask, Tiling, described

PART_BYTES = 16 << 10
COPIED_BYTES = 50e9  # bytes/s from page-locked memory, until a speed was measured
OF_ROOF = 0.75  # share of a device's peak that kernels reach, likewise
FLOPS, MEMORY_BYTES = 10e12, 1e12  # for a device with unknown properties
LEARNED = 0.5  # weight of the latest measurement in the estimate
WORTH_IT = 0.85  # of the time on one GPU, several must not take more: they are taken from other products
FOR_REREADS = 0.15  # of what a product may take, for blocks of matrices that are read once more
SHORT_S = 0.05  # shorter products stay on one GPU


class Tiler:
    """For one product at a time; `tiling` is for any thread. `device` is the first of the GPUs, which are alike, with
    what is known of it by then."""

    def __init__(
        self, settings: Settings, device: Callable[[], DeviceInfo], gpus: Sequence[Gpu], page_locks: PageLocks
    ) -> None:
        self.gpus = gpus
        self.libraries = HostLibraries([gpu.index for gpu in gpus])
        self._device, self._page_locks = device, page_locks
        device_bytes = settings.device_memory_bytes or (device().memory_bytes or 0) // 10 * 9
        self._device_bytes = device_bytes  # that a product may take, of each
        self._flops: dict[tuple[str, DTypeName], float] = {}
        self._copied_bytes = COPIED_BYTES
        self._block_parts = max(64, min(BLOCK_PARTS, device_bytes // 32 // PART_BYTES))
        self._latest: tuple[tuple[object, ...], bool] = (None,), False  # a product, and whether it fits
        self._places = max(2, int(FOR_REREADS * device_bytes) // (self._block_parts * PART_BYTES))

    def tiling(self, problem: Problem, choice: Choice, *, has_epilogue: bool) -> Tiling | None:
        """See `TilingRunner.tiling`. Callable from any thread."""
        if (by_library := self._by_library(problem, choice, has_epilogue=has_epilogue)) is not None:
            return by_library.tiling(problem)
        fits = self._fits(problem, choice, has_epilogue=has_epilogue)
        if fits and len(self.gpus) == 1:
            return None
        speeds = self._speeds(problem, choice)
        copied_s = (problem.operand_bytes + problem.product_bytes) / speeds.copied_bytes
        whole_s = problem.flops / speeds.flops + copied_s
        if fits and whole_s < SHORT_S:
            return None
        tiling = self.in_tiles(problem, choice, has_epilogue=has_epilogue)
        if tiling is None and not fits:
            raise DoesNotFit(too_deep(problem, self._device_bytes))
        if tiling is None or (fits and tiling.estimate.total_s > WORTH_IT * whole_s):
            return None
        return tiling

    def _fits(self, problem: Problem, choice: Choice, *, has_epilogue: bool) -> bool:
        """Whether the device has room for it whole. Of the latest product it is known: most are like the one before."""
        asked = problem, choice, has_epilogue, self._device()
        latest, fits = self._latest
        if not all(map(is_, latest, asked)):
            fits = whole_bytes(problem, self._tile_bytes(choice), has_epilogue) <= self._device_bytes
            self._latest = asked, fits
        return fits

    def in_tiles(self, problem: Problem, choice: Choice, *, has_epilogue: bool = False) -> Tiling | None:
        """The tiling on all GPUs, even if the product fits on one; None if k is too deep."""
        speeds, count = self._speeds(problem, choice), len(self.gpus)
        tile_bytes = self._tile_bytes(choice, has_epilogue=has_epilogue)
        plan = best_plan(problem, speeds, device_bytes=self._device_bytes, tile_bytes=tile_bytes, devices=count)
        if plan is None:
            return None
        return described(plan, estimate(plan, speeds, tile_bytes), "on one GPU" if count == 1 else f"on {count} GPUs")

    @contextmanager
    def tiled(self, task: TiledTask) -> Iterator[TiledProduct]:
        """Host memory is registered with CUDA as long as this lasts."""
        has_epilogue, multiply = task.epilogue is not None, None
        tile_bytes = self._tile_bytes(task.choice, has_epilogue=has_epilogue)
        tiling_s = estimate(task.plan, self._speeds(task.problem, task.choice), tile_bytes).total_s
        tile_s = tiling_s / task.plan.count * task.plan.devices
        if (by_library := self._by_library(task.problem, task.choice, has_epilogue=has_epilogue)) is not None:
            multiply = partial(self._multiply_first, task, by_library.library_s(task.problem))
        with (
            self._locked(task.a.elements, task.a.memory),
            self._locked(task.b.elements, task.b.memory),
            self._locked_addend(task.epilogue),
            self._locked(task.out, task.memory),
        ):
            gpus = self.gpus[: task.plan.devices]
            product = CudaTiledProduct(task, gpus, tile_s, self._block_parts, self._places, multiply)
            yield product
            if product.flops_per_s is not None:
                self._learn(task.choice.kernel.name, task.problem.dtype, product.flops_per_s)
        free_all(self.gpus)

    def _by_library(self, problem: Problem, choice: Choice, *, has_epilogue: bool) -> LibraryTiler | None:
        """The tiler of a library; None for kernels that compute tiles."""
        if not isinstance(choice.kernel, HostLibraryKernel):
            return None
        tile_bytes = self._tile_bytes(choice, has_epilogue=has_epilogue)
        room = len(self.gpus), self._device_bytes
        return LibraryTiler(choice.kernel, *room, self._speeds(problem, choice), tile_bytes)

    def _multiply_first(self, task: TiledTask, expected_s: float) -> float:
        a, b = task.a.elements, task.b.elements
        return self.libraries.multiply(task.choice, task.problem, a, b, task.out, task.check_cancelled, expected_s)

    def _locked_addend(self, epilogue: Epilogue | None) -> AbstractContextManager[None]:
        c = epilogue.c if epilogue is not None else None
        return nullcontext() if c is None else self._locked(c.elements, c.memory)

    def _learn(self, kernel: str, dtype: DTypeName, flops: float) -> None:
        """Keeps how fast tiles were computed, in operations per second of one GPU."""
        before = self._flops.get((kernel, dtype), flops)
        self._flops[kernel, dtype] = LEARNED * flops + (1 - LEARNED) * before

    @contextmanager
    def _locked(self, array: Array, memory: SlotMemory | None) -> Iterator[None]:
        """A slot of the store stays registered; memory of this process alone is registered for this product. Where the
        system refuses, copies go by way of the driver's buffers."""
        if memory is not None:
            self._page_locks.lock(memory)
            yield
            return
        runtime, address = cupy.cuda.runtime, int(array.ctypes.data)
        try:
            runtime.hostRegister(address, array.nbytes, DEFAULT)
        except runtime.CUDARuntimeError:
            yield
            return
        try:
            yield
        except DeviceFault:
            raise  # this process ends; to unregister memory that a device which hangs may use would wait for it
        except BaseException:
            runtime.hostUnregister(address)
            raise
        runtime.hostUnregister(address)

    def _speeds(self, problem: Problem, choice: Choice) -> Speeds:
        device, dtype = self._device(), problem.dtype
        real = DTYPES[dtype].real
        roof = device.measured.gflops.get(real) or device.theoretical.gflops.get(real)
        known = self._flops.get((choice.kernel.name, dtype)) or measured_flops(choice.kernel.name, dtype, device.traits)
        flops = known or (OF_ROOF * roof * 1e9 if roof else FLOPS)
        memory_gb_s = device.measured.memory_gb_s or device.theoretical.memory_gb_s
        return Speeds(flops, self._copied_bytes, OF_ROOF * memory_gb_s * 1e9 if memory_gb_s else MEMORY_BYTES)

    def _tile_bytes(self, choice: Choice, *, has_epilogue: bool = False) -> Callable[[Problem], TileBytes]:
        """Bytes of a tile's matrices on a device. cuBLAS takes 1-byte operands transposed, which doubles them. Complex
        operands are rewritten for a real product and later, in the same memory, for its check."""
        traits = self._device().traits
        spare = min(SPARE_BYTES, self._device_bytes // 8) + self._places * self._block_parts * PART_BYTES

        def tile_bytes(problem: Problem) -> TileBytes:
            shapes = (problem.m, problem.k), (problem.k, problem.n)
            if problem.transpose_a:
                shapes = (problem.k, problem.m), shapes[1]
            if problem.transpose_b:
                shapes = shapes[0], (problem.n, problem.k)
            items = problem.batch if problem.a_batched else 1, problem.batch if problem.b_batched else 1
            a, b = (
                operand_layout(problem.dtype, (count, *shape)).bytes for count, shape in zip(items, shapes, strict=True)
            )
            beside = kernel_bytes(choice, problem, traits) + spare
            if problem.dtype in IN_GROUPS and isinstance(choice.kernel, LibraryKernel):
                beside += a + b
            if DTYPES[problem.dtype].is_complex and isinstance(choice.kernel, LibraryKernel):
                beside += arranged_bytes(problem)
            return TileBytes(a, b, product_layout(problem).bytes, beside)

        return with_epilogue(tile_bytes) if has_epilogue else tile_bytes
