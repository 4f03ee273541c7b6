"""A product on one GPU, with its operands: small ones are checked on the CPU, others where they lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import cupy
import numpy as np

from jobs.errors import OperandDamaged
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import Digest, digest_of, digest_of_parts
from jobs.matrices.interface import MatrixWriter, Place
from jobs.models import Measured
from kernels.model.numerics import DTypeName, Problem
from worker.check.elements import core
from worker.check.host_matrix import HostMatrix
from worker.cuda.check.checked import DeviceProduct
from worker.cuda.check.digest import PendingDigests, launch_digests
from worker.cuda.check.digest_plan import MIN_DIGESTED_BYTES, stored_bytes
from worker.cuda.check.matrix import MatrixOnDevice
from worker.cuda.check.read_back import digests_read_back
from worker.cuda.compile import Compiler
from worker.cuda.memory import DeviceMatrix, Staging, StopWatch, download
from worker.cuda.operand_cache import Copies
from worker.device.runner import HostOperand, Product, gathered, host_operands, verify_on_host


class Times:
    """Device times of a product, of which the copy back is known last."""

    def __init__(self, h2d_ms: float, kernel_ms: float) -> None:
        self._h2d_ms, self._kernel_ms = h2d_ms, kernel_ms
        self.back = StopWatch()

    def measured(self) -> Measured:
        return Measured(h2d_ms=self._h2d_ms, kernel_ms=self._kernel_ms, d2h_ms=self.back.total_ms())


class CudaProduct(Product):
    """What both kinds have: copies of operands that count once the product is right, and times."""

    def __init__(self, operands: tuple[HostOperand, HostOperand], copies: Copies[DeviceMatrix], times: Times) -> None:
        self._operands = operands
        self._copies = copies
        self._times = times

    def keep_operands(self) -> None:
        self._copies.keep()

    def drop_operands(self) -> None:
        self._copies.drop()

    @property
    def measured(self) -> Measured:
        return self._times.measured()


class ProductBroughtBack(CudaProduct):
    """A small one: copied back at once, and checked on the CPU."""

    def __init__(
        self,
        problem: Problem,
        operands: tuple[HostOperand, HostOperand],
        copies: Copies[DeviceMatrix],
        c: DeviceMatrix,
        staging: Staging,
        times: Times,
    ) -> None:
        super().__init__(operands, copies, times)
        self._bytes = gathered(staging.download(c, times.back))
        self._digest = digest_of(self._bytes)
        dtype = STORAGE_DTYPES[problem.product_dtype]
        elements = np.frombuffer(self._bytes, dtype).reshape(problem.batch, problem.m, problem.n)
        self.matrices = host_operands(problem, operands[0].elements, operands[1].elements, elements)

    @property
    def digest(self) -> int:
        return self._digest

    def verify_operands(self) -> None:
        """In this process's memory: the check held the product against these, and so the device's copies too."""
        verify_on_host(self._operands)

    def chunks(self) -> Iterator[memoryview]:
        yield memoryview(self._bytes)


class ProductOnDevice(CudaProduct):
    """Checked where it lies, and copied back piece by piece: this process never holds it whole."""

    def __init__(
        self,
        problem: Problem,
        operands: tuple[HostOperand, HostOperand],
        copies: Copies[DeviceMatrix],
        matrices: tuple[DeviceMatrix, DeviceMatrix, DeviceMatrix],
        staging: Staging,
        compiler: Compiler,
        times: Times,
        place: Place | None,
    ) -> None:
        """`place`, whose memory is registered with CUDA, is where the product is to be stored."""
        super().__init__(operands, copies, times)
        self._c = matrices[2]
        self._staging = staging
        self._compiler = compiler
        self._place = place
        self._digests = _Digests(compiler, matrices, staging)
        host_a: HostMatrix = _OperandOnHost(operands[0], problem.dtype, transposed=problem.transpose_a)
        host_b: HostMatrix = _OperandOnHost(operands[1], problem.dtype, transposed=problem.transpose_b)
        on_device = (
            MatrixOnDevice(compiler, matrices[0], host_a.shape, problem.transpose_a),
            MatrixOnDevice(compiler, matrices[1], host_b.shape, problem.transpose_b),
            MatrixOnDevice(compiler, matrices[2], (problem.batch, problem.m, problem.n)),
        )
        self.matrices = DeviceProduct(compiler, on_device, (host_a, host_b))

    @property
    def digest(self) -> int:
        return self._digests.of(2)

    def verify_operands(self) -> None:
        for index, operand in enumerate(self._operands):
            if self._digests.of(index) != operand.expected_digest:
                raise OperandDamaged

    def chunks(self) -> Iterator[memoryview]:
        return self._staging.download(self._c, self._times.back)

    def store(self, writer: MatrixWriter) -> None:
        """The digests of what lies in the store are taken by the device, which reads it back."""
        if self._place is None:
            super().store(writer)
            return
        address = self._place.memory.address
        try:
            download(self._c, address, self._times.back)
            parts = digests_read_back(self._compiler, address, stored_bytes(self._c.layout))
        finally:
            cupy.cuda.get_current_stream().synchronize()  # nothing may still be written when the slot is given back
        writer.fill(parts)


class _OperandOnHost(HostMatrix):
    """An operand as it enters the product. It is opened where the check asks for its elements, which it seldom does."""

    def __init__(self, operand: HostOperand, dtype: DTypeName, *, transposed: bool) -> None:
        batch, rows, columns = operand.shape if len(operand.shape) == 3 else (1, *operand.shape)
        self.shape = (batch, columns, rows) if transposed else (batch, rows, columns)
        self.dtype = dtype
        self._operand = operand
        self._transposed = transposed

    @property
    def array(self) -> Array:
        return core(self._operand.elements, transposed=self._transposed)


class _Digests:
    """Of matrices on the device: taken there, on the current stream, from now on. Small ones are brought back."""

    def __init__(self, compiler: Compiler, matrices: Sequence[DeviceMatrix], staging: Staging) -> None:
        self._known: dict[int, int] = {}
        self._launched = [i for i, each in enumerate(matrices) if stored_bytes(each.layout) >= MIN_DIGESTED_BYTES]
        on_device = [matrices[i] for i in self._launched]
        self._pending: PendingDigests | None = launch_digests(compiler, on_device) if on_device else None
        for index in set(range(len(matrices))) - set(self._launched):
            self._known[index] = _digest_of_copy(matrices[index], staging)

    def of(self, index: int) -> int:
        """Waits for the device the first time."""
        if self._pending is not None:
            parts = self._pending.result()
            self._known |= {at: digest_of_parts(each) for at, each in zip(self._launched, parts, strict=True)}
            self._pending = None
        return self._known[index]


def _digest_of_copy(matrix: DeviceMatrix, staging: Staging) -> int:
    """The digest of a matrix on the device, taken here, of a copy that is brought back in pieces."""
    digest = Digest(matrix.layout.batch * matrix.layout.rows * matrix.layout.row_bytes)
    for piece in staging.download(matrix, StopWatch()):
        digest.update(piece)
    return digest.value()
