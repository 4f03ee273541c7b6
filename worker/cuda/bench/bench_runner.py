"""The part of a GPU's runner that measures kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cupy

from jobs.benchmarks.records import Ceiling
from jobs.benchmarks.spec import DataSpec
from kernels.model.numerics import Problem
from worker.cuda.bench.bench import CudaBench
from worker.cuda.bench.ceilings import CoreRoofs
from worker.cuda.bench.environment import cuda_environment
from worker.cuda.bench.library_ceilings import LibraryRoofs
from worker.cuda.compile import Compiler
from worker.cuda.gpu.faults import device_faults
from worker.cuda.gpu.streams import stream_of_its_own
from worker.cuda.library.cublas import Cublas
from worker.cuda.memory import DeviceMatrix
from worker.cuda.operand_cache import OfferedProducts, OperandCache
from worker.device.bench import Bench
from worker.device.tiles import TilingRunner


class BenchRunner(TilingRunner):
    """Benchmarks have the device's memory to themselves: what is kept for products is dropped before and after."""

    compiler: Compiler
    cache: OperandCache[DeviceMatrix]
    _cublas: Cublas
    _offered: OfferedProducts[DeviceMatrix]

    @contextmanager
    def bench(self, problem: Problem, data: DataSpec, *, alone: bool = True) -> Iterator[Bench]:
        with device_faults(), self._device_alone() if alone else stream_of_its_own():
            bench = CudaBench(self.compiler, self._cublas, self.device, problem, data)
            try:
                yield bench
            finally:
                bench.close()

    def environment(self) -> dict[str, Any]:
        with device_faults():
            return cuda_environment(self.device)

    def ceilings(self) -> Iterator[Ceiling]:
        with device_faults(), self._device_alone():
            yield from CoreRoofs(self.compiler, self.device).all()
            self._free_all()
            yield from LibraryRoofs(self.compiler, self._cublas, self.device).all()

    @contextmanager
    def _device_alone(self) -> Iterator[None]:
        """A stream of its own, and all memory: operands kept for products are dropped first."""
        self._free_all()
        try:
            with stream_of_its_own():
                yield
        finally:
            self._free_all()
            cupy.get_default_pinned_memory_pool().free_all_blocks()

    def _free_all(self) -> None:
        self.cache.clear()
        self._offered.clear()
        cupy.get_default_memory_pool().free_all_blocks()
