"""What all products on a GPU have in common: what they are computed from, their times, and their operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from jobs.models import Measured
from kernels.model.numerics import Problem
from worker.cuda.compile import Compiler
from worker.cuda.gpu.cores import CoresRequest
from worker.cuda.memory import DeviceMatrix, Staging, StopWatch
from worker.cuda.operand_cache import Copies, OfferedProducts
from worker.cuda.pitch import operand_layout
from worker.device.operands import HostOperand
from worker.device.runner import Product


class Times:
    """Device times of a product, of which the copy back is known last."""

    def __init__(self, kernel_ms: float, copying: StopWatch, back: StopWatch | None = None) -> None:
        self._kernel_ms, self._h2d_ms = kernel_ms, copying.total_ms()
        self.back = back or StopWatch()

    def measured(self) -> Measured:
        return Measured(h2d_ms=self._h2d_ms, kernel_ms=self._kernel_ms, d2h_ms=self.back.total_ms())


@dataclass(slots=True)
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
    items: int = 1  # products of jobs of their own, of which this is a batch

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
