"""A product on one GPU, with its operands: small ones are checked on the CPU, others where they lie."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jobs.digest import Digest, digest_of
from jobs.errors import OperandDamaged
from jobs.matrices import STORAGE_DTYPES
from jobs.models import Measured
from kernels.numerics import Problem
from worker.compile import Compiler
from worker.device_memory import DeviceMatrix, Staging, StopWatch
from worker.device_sums import MatrixOnDevice
from worker.elements import core
from worker.explain import Operands
from worker.operand_cache import Copies
from worker.runner import HostOperand, Product, gathered, host_operands, verify_on_host
from worker.sums import HostMatrix


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
    ) -> None:
        super().__init__(operands, copies, times)
        self._on_device = matrices[:2]
        self._c = matrices[2]
        self._staging = staging
        self._digest = _digest_of_copy(self._c, staging)
        host_a = HostMatrix(core(operands[0].elements, transposed=problem.transpose_a), problem.dtype)
        host_b = HostMatrix(core(operands[1].elements, transposed=problem.transpose_b), problem.dtype)
        self.matrices = Operands(
            MatrixOnDevice(compiler, matrices[0], 0, host_a.shape, problem.transpose_a, host_a),
            MatrixOnDevice(compiler, matrices[1], 0, host_b.shape, problem.transpose_b, host_b),
            MatrixOnDevice(compiler, matrices[2], 0, (problem.batch, problem.m, problem.n), False),
        )

    @property
    def digest(self) -> int:
        return self._digest

    def verify_operands(self) -> None:
        for operand, copy in zip(self._operands, self._on_device, strict=True):
            if _digest_of_copy(copy, self._staging) != operand.expected_digest:
                raise OperandDamaged

    def chunks(self) -> Iterator[memoryview]:
        return self._staging.download(self._c, self._times.back)


def _digest_of_copy(matrix: DeviceMatrix, staging: Staging) -> int:
    """The digest of a matrix on the device, taken here, of a copy that is brought back in pieces."""
    digest = Digest(matrix.layout.batch * matrix.layout.rows * matrix.layout.row_bytes)
    for piece in staging.download(matrix, StopWatch()):
        digest.update(piece)
    return digest.value()
