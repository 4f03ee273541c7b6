"""A small product on one GPU: copied back at once, and checked on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of
from kernels.model.numerics import Problem
from worker.cuda.epilogue.on_device import EpilogueOnDevice
from worker.cuda.memory import DeviceMatrix, Staging, StopWatch
from worker.cuda.operand_cache import Copies, OfferedProducts
from worker.cuda.product import CudaProduct, Times
from worker.device.cancellable_lock import LockRequest
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue, gathered, operands_as_checked, verify_on_host, wrong_on_host


class ProductBroughtBack(CudaProduct):
    """Brought to this process as soon as it is computed."""

    def __init__(
        self,
        problem: Problem,
        operands: Sequence[HostOperand],
        copies: Copies[DeviceMatrix],
        p: DeviceMatrix,
        epilogue: EpilogueOnDevice | None,
        offered: OfferedProducts[DeviceMatrix],
        staging: Staging,
        times: Times,
        device_lock: LockRequest,
    ) -> None:
        """`p` is A·B."""
        super().__init__(problem, operands, copies, p if epilogue is None else epilogue.d, offered, device_lock)
        self._problem, self._times = problem, times
        self._bytes = gathered(staging.download(self._c, times.back))
        self._digest = digest_of(self._bytes)
        self._elements = self._product = _as_product(self._bytes, self._c, problem)
        self._epilogue: Epilogue | None = None
        if epilogue is not None:
            self._product = _as_product(gathered(staging.download(p, StopWatch())), p, problem)
            self._epilogue = epilogue.on_host(operands[2:])
        self.matrices = operands_as_checked(problem, operands[0], operands[1], self._product)

    @property
    def digest(self) -> int:
        return self._digest

    def wrong_elements(self) -> int:
        return wrong_on_host(self._problem, self._epilogue, self._product, self._elements)

    def verify_operands(self) -> None:
        """In this process's memory: the check held the product against these, and so the device's copies too."""
        verify_on_host(self._operands)

    def chunks(self) -> Iterator[memoryview]:
        yield memoryview(self._bytes)


def _as_product(data: bytearray, matrix: DeviceMatrix, problem: Problem) -> Array:
    elements = np.frombuffer(data, STORAGE_DTYPES[matrix.layout.dtype])
    return elements.reshape(problem.batch, problem.m, problem.n)
