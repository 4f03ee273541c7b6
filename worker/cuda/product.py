"""A product on one GPU, with its operands. Small products are checked on the CPU, others on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from jobs.errors import OperandDamaged
from jobs.formats.elements import Array
from jobs.matrices.interface import MatrixWriter, Place
from jobs.models import Measured
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName, Problem
from worker.check.elements import core
from worker.check.host_matrix import HostMatrix
from worker.check.verify import group_width
from worker.check.views.as_real import InBlocks, RealView, signs_of
from worker.cuda.check.device_product import DeviceProduct
from worker.cuda.check.matrix import MatrixOnDevice
from worker.cuda.check.product_digests import ProductDigests
from worker.cuda.check.read_back import CopyBack
from worker.cuda.check.sketch import NO_DIGESTS, digestible
from worker.cuda.compile import Compiler
from worker.cuda.complex.matrices import RealOperands
from worker.cuda.epilogue.fused import FusedOnDevice
from worker.cuda.epilogue.on_device import EpilogueOnDevice
from worker.cuda.gpu.cores import CoresRequest
from worker.cuda.gpu.page_locks import PageLocks
from worker.cuda.grouped.check import GroupedOnDevice, grouped_on_device
from worker.cuda.memory import TOGETHER_BYTES, DeviceMatrix, Staging, StopWatch, allocate, upload
from worker.cuda.operand_cache import Copies, OfferedProducts, OperandCache
from worker.cuda.pitch import operand_layout
from worker.cuda.scaled.on_device import DequantisedForCheck, dequantised_for_check
from worker.device.operands import HostOperand
from worker.device.runner import Product, verify_on_host

OPERAND_DIGESTS = (0, 1, 3, 4)  # of A, B and what is added, among all that are taken; 2 is the product's


class Times:
    """Device times of a product, of which the copy back is known last."""

    def __init__(self, kernel_ms: float, copying: StopWatch, back: StopWatch | None = None) -> None:
        self._kernel_ms, self._h2d_ms = kernel_ms, copying.total_ms()
        self.back = back or StopWatch()

    def measured(self) -> Measured:
        return Measured(h2d_ms=self._h2d_ms, kernel_ms=self._kernel_ms, d2h_ms=self.back.total_ms())


@dataclass(frozen=True, slots=True)
class ProductInputs:
    """What one product is computed from, and what it needs of its device until it is delivered."""

    problem: Problem
    operands: Sequence[HostOperand]  # A, B and what is added
    on_device: Sequence[DeviceMatrix]  # their copies
    copying: StopWatch  # of these copies
    copies: Copies[DeviceMatrix]  # to be kept once the product has passed its check
    offered: OfferedProducts[DeviceMatrix]
    staging: Staging
    compiler: Compiler
    cores: CoresRequest

    @property
    def elements(self) -> int:
        """The number of elements of the product and of all operands."""
        problem = self.problem
        return problem.batch * problem.m * problem.n + sum(prod(each.shape) for each in self.operands)


class CudaProduct(Product):
    """Common base: copies of operands, which are kept once the product has passed its check, and times."""

    _times: Times

    def __init__(self, inputs: ProductInputs, delivered: DeviceMatrix) -> None:
        self.device_lock = inputs.cores
        self._operands, self._copies, self._offered = inputs.operands, inputs.copies, inputs.offered
        self._copying, self._staging = inputs.copying, inputs.staging
        self._delivered = delivered
        self._as_operand = operand_layout(delivered.layout.dtype, inputs.problem.product_shape)

    def keep_operands(self) -> None:
        self._copies.keep()

    def drop_operands(self) -> None:
        self._copies.drop()

    def offer(self, matrix_id: str) -> None:
        """Offers the product as a future operand, if its layout is that of an operand."""
        if self._delivered.layout == self._as_operand:
            self._offered.offer(matrix_id, self._delivered, self.digest)

    @property
    def measured(self) -> Measured:
        return self._times.measured()


class CheckAsked(NamedTuple):
    """What a product is going to be checked as."""

    problem: Problem
    accuracy: AccuracyName


class ProductOnDevice(CudaProduct):
    """A product checked on the device and copied back piece by piece, so that this process never holds all of it. It is
    created before the device multiplies; `follow` is called while it does, and `computed` afterwards.
    """

    _check: DeviceProduct | GroupedOnDevice

    def __init__(
        self,
        inputs: ProductInputs,
        matrices: tuple[DeviceMatrix, DeviceMatrix, DeviceMatrix],
        after: EpilogueOnDevice | FusedOnDevice | None,
        place: Place | None,
    ) -> None:
        """`matrices` are A, B and A·B, or the sums of a kernel with an epilogue. `place`, whose memory is registered
        with CUDA, is where the product is to be stored."""
        problem, operands, compiler = inputs.problem, inputs.operands, inputs.compiler
        delivered = matrices[2] if after is None else after.d
        super().__init__(inputs, delivered)
        self._after, self._compiler, self._place = after, compiler, place
        self._back = StopWatch()
        self._copy: CopyBack | None = None
        host_a: HostMatrix = _OperandOnHost(operands[0], problem.dtype, transposed=problem.transpose_a)
        host_b: HostMatrix = _OperandOnHost(operands[1], problem.dtype, transposed=problem.transpose_b)
        self._real: RealOperands | None = None
        self._scaled: tuple[DequantisedForCheck, ...] = ()
        if DTYPES[problem.dtype].is_complex:
            self._real = RealOperands(compiler, problem, *matrices[:2], for_check=True)
            on_device = self._real.on_device(problem, matrices[2])
            host_a, host_b = RealView(host_a), InBlocks(host_b, signs_of(problem))
        elif problem.group_sizes:
            self._check_groups(problem, (host_a, host_b), matrices, inputs.cores)
            return
        else:
            self._scaled = dequantised_for_check(compiler, problem, operands, matrices)
            host_a, host_b = (each.host for each in self._scaled) if self._scaled else (host_a, host_b)
            read = [each.matrix for each in self._scaled] or matrices
            on_device = (
                MatrixOnDevice(compiler, read[0], host_a.shape, problem.transpose_a),
                MatrixOnDevice(compiler, read[1], host_b.shape, problem.transpose_b),
                MatrixOnDevice(compiler, matrices[2], (problem.batch, problem.m, problem.n)),
            )
        are_read = self._real is None and not self._scaled  # or else digests go by themselves
        left = digestible(on_device, group_width(problem.n, problem.k)) if problem.flops and are_read else NO_DIGESTS
        digested = [*matrices[:2], delivered]
        if delivered is not matrices[2]:  # the check reads what no one is sent
            left = (*left[:2], False)
        digested += () if after is None else after.addends
        self._digests = ProductDigests(compiler, digested, inputs.staging, left)
        of_sums = after.check(on_device) if isinstance(after, FusedOnDevice) else None
        self.matrices = self._check = DeviceProduct(
            compiler, on_device, (host_a, host_b), self._digests, of_sums, cores=inputs.cores
        )

    def _check_groups(
        self,
        problem: Problem,
        hosts: tuple[HostMatrix, HostMatrix],
        matrices: tuple[DeviceMatrix, DeviceMatrix, DeviceMatrix],
        cores: CoresRequest,
    ) -> None:
        """Digests are of all three matrices, and by themselves: no sketch reads one of them as a whole."""
        self._digests = ProductDigests(self._compiler, matrices, self._staging, NO_DIGESTS)
        self.matrices = self._check = grouped_on_device(self._compiler, problem, hosts, matrices, cores)

    def follow(self, asked: CheckAsked | None) -> Any:
        """Puts what comes after the product behind it, as far as possible, and gives up the cores if all that needs
        them is there: the sketch for the check, unless there is to be none, and beside it the copy back. The copy goes
        where no one looks before the check has passed. Returns the event that the sketch ends with, or None. Called
        again if the product is launched again."""
        if self._copy is not None:
            self._staging.synchronize()
            self._copy = None
        self._digests.restart()
        if self._real is not None:
            self._real.arrange()
        for each in self._scaled:
            each.make()
        self._check.prepare()
        if asked is None or self._digests.may_wait or not isinstance(self._check, DeviceProduct):
            return None
        copy = None if self._place is None else self._copy_to(self._place)
        self._digests.begin_others()
        sketched = self._check.launch_ahead(asked.problem, asked.accuracy)
        if sketched is not None:
            self.device_lock.release()
            self._copy = None if copy is None else copy.begin()
        return sketched

    def computed(self, kernel_ms: float) -> None:
        """Called when the product has been computed."""
        self._times = Times(kernel_ms, self._copying, self._back)
        self._digests.begin_others()

    @property
    def digest(self) -> int:
        return self._digests.of(2)

    def wrong_elements(self) -> int:
        return 0 if self._after is None else self._after.wrong_elements()

    def verify_operands(self) -> None:
        for index, operand in zip(OPERAND_DIGESTS, self._operands, strict=False):
            if self._digests.of(index) != operand.expected_digest:
                raise OperandDamaged
        verify_on_host(part for each in self._operands for part in each.parts[1:])

    def chunks(self) -> Iterator[memoryview]:
        return self._staging.download(self._delivered, self._times.back)

    def store(self, writer: MatrixWriter) -> None:
        """The digests of what lies in the store are taken by the device, which reads it back; of a small one, here."""
        if self._place is None:
            super().store(writer)
            return
        try:
            parts = (self._copy or self._copy_to(self._place).begin()).parts()
        finally:
            self._staging.synchronize()
        writer.fill(parts)

    def _copy_to(self, place: Place) -> CopyBack:
        return CopyBack(self._compiler, self._delivered, place, self._back, self._staging)


class _OperandOnHost(HostMatrix):
    """An operand as it enters the product. It is opened only if the check reads its elements, which is rare."""

    def __init__(self, operand: HostOperand, dtype: DTypeName, *, transposed: bool) -> None:
        batch, rows, columns = operand.shape if len(operand.shape) == 3 else (1, *operand.shape)
        self.shape = (batch, columns, rows) if transposed else (batch, rows, columns)
        self.dtype = dtype
        self._operand = operand
        self._transposed = transposed

    @property
    def array(self) -> Array:
        return core(self._operand.elements, transposed=self._transposed)


def operands_on_device(
    cache: OperandCache[DeviceMatrix],
    page_locks: PageLocks,
    types: Sequence[DTypeName],
    operands: Sequence[HostOperand],
    copying: StopWatch,
    staging: Staging,
) -> list[DeviceMatrix]:
    """The operands' copies, kept from an earlier job or made now; of those that are the same matrix, one. Small ones
    that are not to be kept come together."""
    if not any(operand.id for operand in operands):
        layouts = [operand_layout(dtype, each.shape) for each, dtype in zip(operands, types, strict=False)]
        if sum(each.bytes for each in layouts) <= TOGETHER_BYTES:
            arrays = (operand.elements for operand in operands)
            return staging.upload_together([*zip(arrays, layouts, strict=True)], copying)
    copies: list[DeviceMatrix] = []
    for operand, dtype in zip(operands, types, strict=False):
        same = next((i for i, other in enumerate(operands[: len(copies)]) if other.id == operand.id), None)
        if operand.id is not None and same is not None:
            operand.known_digest(operands[same].expected_digest)
            copies.append(copies[same])
        elif operand.id is not None and (kept := cache.get(operand.id)) is not None:
            operand.known_digest(kept.digest)
            copies.append(kept.copy)
        else:
            copies.append(allocate(operand_layout(dtype, operand.shape)))
            page_locks.lock(operand.memory)
            with copying:
                upload(operand.elements, copies[-1])
    return copies
