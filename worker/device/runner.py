"""The interface of a worker's device: compute a product, give it to the check, hand it over, and time kernels. One
class per device class: `CpuRunner` in `worker/cpu/runner.py`, `CudaRunner` in `worker/cuda/runner.py`, so that a CPU
worker never imports CuPy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from jobs.benchmarks.records import Ceiling
from jobs.benchmarks.spec import DataSpec
from jobs.errors import OperandDamaged, OutOfDeviceMemory
from jobs.fleet.workers import DeviceInfo, LeftOutKernel, Telemetry
from jobs.formats.elements import Array
from jobs.matrices.digest import digest_of
from jobs.matrices.interface import MatrixWriter, Place
from jobs.matrices.slot_memory import SlotMemory
from jobs.models import Measured
from kernels.catalog import CATALOG
from kernels.model.activations import ActivationName
from kernels.model.groups import groups_of
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.candidates import Choice
from worker.check.checkable import Checkable, HostProduct
from worker.check.elements import core
from worker.check.epilogue import After, wrong_elements
from worker.check.grouped import GroupedProduct
from worker.check.host_matrix import HostMatrix
from worker.check.views.as_real import real_matrices
from worker.device.bench import Bench
from worker.device.cancellable_lock import LockRequest, never_cancelled
from worker.device.operands import HostOperand
from worker.device.scaled import ScaledOperand


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The epilogue: delivers activation(alpha·P + beta·C + bias), element by element, instead of P = A·B. A term whose
    factor is 0 is left out, whatever is in its matrix. Only for complex products may factors be complex."""

    alpha: complex
    beta: complex
    c: HostOperand | None  # (m, n) or (batch, m, n), of the product's type; None where beta is 0
    bias: HostOperand | None = None  # (1, n) or (m, 1), of the product's type
    activation: ActivationName | None = None
    output: DTypeName | None = None  # the type that is delivered, where it is another than the product's
    may_fuse: bool = False  # whether a kernel may do it to its own sums, before these are rounded to the product's type

    @property
    def operands(self) -> tuple[HostOperand, ...]:
        """C and the bias, if there are any."""
        return tuple(each for each in (self.c, self.bias) if each is not None)

    @property
    def added(self) -> tuple[bool, bool]:
        """Whether there is a C, and whether a bias."""
        return self.c is not None, self.bias is not None

    def output_of(self, problem: Problem) -> DTypeName:
        return self.output or problem.product_dtype

    @property
    def after(self) -> After:
        """The epilogue in the form that the check takes."""
        return After(None if self.bias is None else self.bias.elements, self.activation, self.output)


class Product(ABC):
    """A product on its device, with its operands still available for the check. No other product has the device's
    cores until `device_lock` is released. With an epilogue, the product is D = alpha·A·B + beta·C."""

    matrices: Checkable | GroupedProduct  # A, B and A·B
    device_lock: LockRequest
    made_by: Choice | None = None  # what multiplied, where that is not simply what was chosen

    @property
    @abstractmethod
    def digest(self) -> int:
        """The digest of the product's bytes, taken before the check begins: what reaches the store must have it."""

    @abstractmethod
    def wrong_elements(self) -> int:
        """The number of elements of D that do not follow from A·B and C; 0 without an epilogue. A·B has a check of its
        own."""

    @abstractmethod
    def verify_operands(self) -> None:
        """Compares the operands that were multiplied with the digests of what was sent. To be called after the check.

        Raises OperandDamaged.
        """

    @abstractmethod
    def keep_operands(self) -> None:
        """Called if the product is right: the device may keep its copies of the operands for other jobs."""

    @abstractmethod
    def drop_operands(self) -> None:
        """Called if something is wrong: no copy of the operands on the device is used again."""

    @abstractmethod
    def offer(self, matrix_id: str) -> None:
        """Called if the product is right and its bytes are stored under that id: the device may keep its own copy until
        `Runner.product_ended`."""

    @abstractmethod
    def chunks(self) -> Iterator[memoryview]:
        """The product's bytes in stored order; can be read once. Each piece is valid until the next is requested."""

    def store(self, writer: MatrixWriter) -> None:
        """Writes all bytes, in place of `chunks`. `writer` was made with the place that the product was computed with;
        if there is one, no CPU copies a byte."""
        for chunk in self.chunks():
            writer.write(chunk)

    @property
    @abstractmethod
    def measured(self) -> Measured:
        """Device times, known once the product is stored or its chunks are read."""


def gathered(chunks: Iterator[memoryview]) -> bytearray:
    """Joins the pieces, each of which is copied before the next is requested."""
    whole = bytearray()
    for chunk in chunks:
        whole += chunk
    return whole


class DoesNotFit(OutOfDeviceMemory):
    """The product needs more memory than there is, as computed before anything is moved; make it smaller."""


class Runner(ABC):
    """One device. Several threads may compute products at once; everything else is for one thread, while no product is
    computed, unless it says otherwise."""

    device: DeviceInfo
    max_bytes_under_way: int  # of the matrices of products that are under way at once
    jobs_under_way: int  # the useful number of such products
    max_launch_bytes: int  # of stored matrices of several jobs: with more, the first would wait for the last
    light_extent: int  # most rows or columns of a light product, which is done before another thread has been woken

    @property
    def kernels(self) -> tuple[str, ...]:
        """Kernels of the catalogue that this device runs."""
        return tuple(kernel.name for kernel in CATALOG if kernel.unsupported_because(self.device.traits) is None)

    def leave_out(self, kernel: str, dtype: DTypeName, reason: str) -> None:
        """Marks a kernel that cannot run here for such operands: it is neither chosen nor offered. `reason` is a
        sentence."""
        left_out = LeftOutKernel(kernel=kernel, dtype=dtype, reason=reason)
        self.device = self.device.model_copy(update={"left_out": (*self.device.left_out, left_out)})

    @abstractmethod
    def compile_ahead(self, products: Iterable[tuple[Choice, Problem]]) -> None:
        """Compiles, on all cores, what these products will need and is not compiled yet; one after the other would take
        minutes. Callable from any thread.

        Raises KernelUnavailable, once all that can be compiled is.
        """

    def make_ready(self, choice: Choice, problem: Problem) -> None:
        """Does everything that can be done ahead, between jobs, for a product that is likely to be requested again.
        Callable from any thread.

        Raises KernelUnavailable, DeviceFault.
        """
        self.compile_ahead([(choice, problem)])

    @abstractmethod
    def max_alike(self, one: Problem) -> int:
        """The most light jobs with this product that are to share a launch; 1 where they gain nothing by it."""

    @abstractmethod
    def is_compiled(self, choice: Choice, problem: Problem) -> bool:
        """Whether the product could be launched without compiling or trying anything. Callable from any thread."""

    @abstractmethod
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
    ) -> AbstractContextManager[Product]:
        """Computes the product, which is valid as long as the context lasts.

        `place`: where the product is to be stored; the device may compute it there.
        `check_cancelled`: called while the product waits for others; what it raises ends the wait.
        `zero_output`: for a product that no check follows. Its memory is zeroed first, so that elements that a kernel
        leaves unwritten are zero, and no check is launched behind it.

        Raises OutOfDeviceMemory (its subclass DoesNotFit before anything is moved), KernelUnavailable, DeviceFault.
        """

    @abstractmethod
    def kernel_bytes(self, choice: Choice, problem: Problem) -> int:
        """Device memory that the kernel needs in addition to the three matrices."""

    @abstractmethod
    def free_memory(self) -> None:
        """Frees cached memory, so that a product that ran out of memory can be tried again. Callable from any
        thread.
        """

    @abstractmethod
    def expect(self, memory: SlotMemory) -> None:
        """Announces that operands are likely to come from this memory. Callable from any thread."""

    @abstractmethod
    def product_ended(self, matrix_id: str, *, awaited: bool) -> None:
        """Called when the end of the job of a stored product is recorded, from any thread. `awaited`: other jobs wait
        for the product, so a device that still holds it keeps it as an operand."""

    @abstractmethod
    def telemetry(self) -> Telemetry:
        """The device's state now. Callable from any thread."""

    @abstractmethod
    def bench(self, problem: Problem, data: DataSpec, *, alone: bool = True) -> AbstractContextManager[Bench]:
        """The problem's operands, made on the device, to time kernels with, as long as the context lasts. `alone`:
        matrices kept for other products are dropped first.

        Raises OutOfDeviceMemory, KernelUnavailable, DeviceFault.
        """

    @abstractmethod
    def environment(self) -> dict[str, Any]:
        """The environment of a benchmark on this device: clocks, limits, versions, host. Unknown values are null."""

    @abstractmethod
    def ceilings(self) -> Iterator[Ceiling]:
        """Yields the device's measured roofs, one by one. Raises OutOfDeviceMemory, DeviceFault."""


def verify_on_host(operands: Iterable[HostOperand]) -> None:
    """Raises OperandDamaged where elements are not those that were sent."""
    for operand in (part for each in operands for part in each.parts):
        if operand.digest is not None and digest_of(operand.elements) != operand.digest:
            raise OperandDamaged


def host_operands(problem: Problem, a: Array, b: Array, c: Array) -> HostProduct:
    """Matrices in this process's memory, as the check reads them. `a` and `b` are as stored, not yet transposed."""
    matrices = (
        HostMatrix(core(a, transposed=problem.transpose_a), problem.dtype),
        HostMatrix(core(b, transposed=problem.transpose_b), problem.dtype),
        HostMatrix(core(c, transposed=False), problem.product_dtype),
    )
    return HostProduct(*real_matrices(problem, *matrices))


def operands_as_checked(problem: Problem, a: HostOperand, b: HostOperand, c: Array) -> HostProduct | GroupedProduct:
    """Like `host_operands`, also for operands with block scales (as the numbers that they stand for) and for rows in
    groups."""
    if problem.group_sizes:
        return _grouped_operands(problem, a.elements, b.elements, c)
    if not (isinstance(a, ScaledOperand) and isinstance(b, ScaledOperand)):
        return host_operands(problem, a.elements, b.elements, c)
    of_a, of_b = a.matrix(transposed=problem.transpose_a), b.matrix(transposed=problem.transpose_b)
    return HostProduct(of_a, of_b, HostMatrix(core(c, transposed=False), problem.product_dtype))


def _grouped_operands(problem: Problem, a: Array, b: Array, c: Array) -> GroupedProduct:
    products = []
    for group in groups_of(problem):
        rows = slice(group.first_row, group.first_row + group.problem.m)
        products.append(host_operands(group.problem, a[rows], b[group.index], core(c, transposed=False)[0, rows]))
    return GroupedProduct(products, host_operands(problem, a, b, c).elementwise)


def wrong_on_host(problem: Problem, epilogue: Epilogue | None, p: Array, d: Array) -> int:
    """`Product.wrong_elements` for matrices in this process's memory: `p` is A·B, `d` the epilogue's result."""
    if epilogue is None:
        return 0
    c = None if epilogue.c is None else core(epilogue.c.elements, transposed=False)
    of_d, of_p = (core(each, transposed=False) for each in (d, p))
    return wrong_elements(of_d, of_p, c, epilogue.alpha, epilogue.beta, problem.product_dtype, epilogue.after)
