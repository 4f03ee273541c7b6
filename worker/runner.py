"""What a worker's device must do for it: compute a product, show it to the check, hand it over, have kernels timed on
it. One class per device class: `CpuRunner` here, `CudaRunner` in `worker/cuda_runner.py`, so that a CPU worker never
imports CuPy.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from jobs.benchmarks.records import Ceiling
from jobs.benchmarks.spec import DataSpec
from jobs.errors import OperandDamaged, OutOfDeviceMemory
from jobs.fleet.workers import DeviceInfo, Telemetry
from jobs.formats.elements import Array
from jobs.matrices.digest import digest_of
from jobs.models import Measured
from jobs.settings import Settings
from kernels.catalog import CATALOG
from kernels.model.numerics import Problem
from kernels.selection.choose import Choice
from worker.benchmark.bench import Bench
from worker.benchmark.cpu_bench import CpuBench
from worker.benchmark.cpu_ceilings import cpu_ceilings
from worker.benchmark.environment import host_environment
from worker.checked import Checkable, HostProduct
from worker.cpu_blas import multiply
from worker.cpu_device import available_bytes, cpu_info, usable_cores
from worker.elements import core
from worker.host_matrix import HostMatrix


@dataclass(frozen=True, slots=True)
class HostOperand:
    """An operand as it is stored. `id` is its content address, where a device may keep it for the next job.

    `digest` is that of the bytes that were sent (`jobs/matrices/digest.py`); None where no one sent any.
    """

    elements: Array
    id: str | None = None
    digest: int | None = None

    @property
    def expected_digest(self) -> int:
        """What a copy of the operand must have."""
        return digest_of(self.elements) if self.digest is None else self.digest


class Product(ABC):
    """A product on its device, with its operands still at hand for the check."""

    matrices: Checkable

    @property
    @abstractmethod
    def digest(self) -> int:
        """The digest of the product's bytes, taken before the check begins: what reaches the store must have it."""

    @abstractmethod
    def verify_operands(self) -> None:
        """Compares the operands that were multiplied with the digests of what was sent. To be called after the check.

        Raises OperandDamaged.
        """

    @abstractmethod
    def keep_operands(self) -> None:
        """The product is right, so a device may keep its copies of the operands for other jobs."""

    @abstractmethod
    def drop_operands(self) -> None:
        """Something is wrong, so no copy of the operands on the device is used again."""

    @abstractmethod
    def chunks(self) -> Iterator[memoryview]:
        """Its bytes in stored order. Each piece is good until the next is asked for; to be read once, wholly."""

    @property
    @abstractmethod
    def measured(self) -> Measured:
        """Device times, known once the chunks are read."""


def gathered(chunks: Iterator[memoryview]) -> bytearray:
    """All pieces, each copied before the next is asked for."""
    whole = bytearray()
    for chunk in chunks:
        whole += chunk
    return whole


class Runner(ABC):
    """One device. For use by one thread."""

    device: DeviceInfo

    @property
    def kernels(self) -> tuple[str, ...]:
        """Kernels of the catalogue that this device runs."""
        return tuple(kernel.name for kernel in CATALOG if kernel.unsupported_because(self.device.traits) is None)

    @abstractmethod
    def compute(
        self, problem: Problem, choice: Choice, a: HostOperand, b: HostOperand
    ) -> AbstractContextManager[Product]:
        """The product, as long as the context lasts. Raises OutOfDeviceMemory, KernelUnavailable, DeviceFault."""

    @abstractmethod
    def telemetry(self) -> Telemetry:
        """The device's state now. For use by any thread."""

    @abstractmethod
    def bench(self, problem: Problem, data: DataSpec, *, alone: bool = True) -> AbstractContextManager[Bench]:
        """The problem's operands, made there, to have kernels timed on; as long as the context lasts. `alone`: what is
        kept there for other products goes first.

        Raises OutOfDeviceMemory, KernelUnavailable, DeviceFault.
        """

    @abstractmethod
    def environment(self) -> dict[str, Any]:
        """What a benchmark there depends on: clocks, limits, versions, host. Unknown is null."""

    @abstractmethod
    def ceilings(self) -> Iterator[Ceiling]:
        """The device's roofs, each when it has been measured. Raises OutOfDeviceMemory, DeviceFault."""


# Products of fewer operations take one thread: waking others costs more than they save, and keeps cores from the
# API and Redis beside this worker. About 360×360×360.
ONE_THREAD_FLOPS = 100e6
LOOKED_AT_BYTES = 16 << 20  # a smaller product is not worth the question how much memory is free
SPARE_BYTES = 256 << 20  # left free beside a product: blocks of it in other types, the check, the process itself


class CpuRunner(Runner):
    """`cpu_blas` in this process."""

    def __init__(self, settings: Settings) -> None:
        self._threads = settings.cpu_threads or usable_cores()
        self._blas = ThreadpoolController().select(user_api="blas").lib_controllers
        self._use_threads(self._threads)
        self.device = cpu_info(self._threads)

    def _use_threads(self, count: int) -> None:
        for library in self._blas:
            library.set_num_threads(count)

    @contextmanager
    def compute(self, problem: Problem, choice: Choice, a: HostOperand, b: HostOperand) -> Iterator[Product]:
        _admit(problem)
        self._use_threads(self._threads if problem.flops >= ONE_THREAD_FLOPS else 1)
        started = time.perf_counter()
        c = multiply(problem, a.elements, b.elements)
        yield _HostProduct(problem, a, b, c, kernel_ms=(time.perf_counter() - started) * 1e3)

    def telemetry(self) -> Telemetry:
        return Telemetry()

    @contextmanager
    def bench(self, problem: Problem, data: DataSpec, *, alone: bool = True) -> Iterator[Bench]:
        _admit(problem, operands=True)
        self._use_threads(self._threads if problem.flops >= ONE_THREAD_FLOPS else 1)
        yield CpuBench(problem, data)

    def environment(self) -> dict[str, Any]:
        return host_environment() | {"blas_threads": self._threads, "versions": self.device.versions}

    def ceilings(self) -> Iterator[Ceiling]:
        self._use_threads(self._threads)
        return cpu_ceilings(self._threads)


def _admit(problem: Problem, *, operands: bool = False) -> None:
    """Raises OutOfDeviceMemory for a product that memory has no room for: the system would end the process instead.

    `operands` are counted where they are to be made too.
    """
    need = problem.product_bytes + (problem.operand_bytes if operands else 0)
    if need < LOOKED_AT_BYTES:
        return
    need, free = need + SPARE_BYTES, available_bytes()
    if free is not None and need > free:
        raise OutOfDeviceMemory(
            f"The product needs {need} bytes of memory, of which {free} are free; make it smaller or try later."
        )


class _HostProduct(Product):
    def __init__(self, problem: Problem, a: HostOperand, b: HostOperand, c: Array, *, kernel_ms: float) -> None:
        self._operands = a, b
        self._c = c
        self._digest = digest_of(c)
        self._kernel_ms = kernel_ms
        self.matrices = host_operands(problem, a.elements, b.elements, c)

    @property
    def digest(self) -> int:
        return self._digest

    def verify_operands(self) -> None:
        verify_on_host(self._operands)

    def keep_operands(self) -> None:
        """They lie in the store, mapped: there are no copies."""

    def drop_operands(self) -> None:
        """As above."""

    def chunks(self) -> Iterator[memoryview]:
        yield self._c.reshape(-1).view(np.uint8).data

    @property
    def measured(self) -> Measured:
        return Measured(h2d_ms=0.0, kernel_ms=self._kernel_ms, d2h_ms=0.0)


def verify_on_host(operands: Iterable[HostOperand]) -> None:
    """Raises OperandDamaged where elements are not those that were sent."""
    for operand in operands:
        if operand.digest is not None and digest_of(operand.elements) != operand.digest:
            raise OperandDamaged


def host_operands(problem: Problem, a: Array, b: Array, c: Array) -> HostProduct:
    """Matrices in this process's memory, as the check reads them. `a` and `b` are as stored, not yet transposed."""
    return HostProduct(
        HostMatrix(core(a, transposed=problem.transpose_a), problem.dtype),
        HostMatrix(core(b, transposed=problem.transpose_b), problem.dtype),
        HostMatrix(core(c, transposed=False), problem.product_dtype),
    )
