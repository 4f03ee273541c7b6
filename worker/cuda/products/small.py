"""A small product on one GPU: copied back behind its kernel, and checked on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of
from kernels.model.numerics import Problem
from worker.cuda.epilogue.on_device import EpilogueOnDevice
from worker.cuda.memory import DeviceMatrix
from worker.cuda.products.base import CudaProduct, ProductInputs, Times
from worker.device.runner import operands_as_checked, verify_on_host, wrong_on_host


class SmallProduct(CudaProduct):
    """A product whose copy to this process is launched behind its kernel, so that both are waited for once. It is
    created before the device multiplies; `follow` is called during the multiplication, and `computed` afterwards."""

    def __init__(self, inputs: ProductInputs, p: DeviceMatrix, epilogue: EpilogueOnDevice | None) -> None:
        """`p` is A·B."""
        super().__init__(inputs, p if epilogue is None else epilogue.d)
        self._problem, self._cores = inputs.problem, inputs.cores
        self._back = inputs.staging.watch()
        self._copied = [p] if epilogue is None else [self._delivered, p]
        self._places: list[memoryview] = []
        self._epilogue = None if epilogue is None else epilogue.on_host(inputs.operands[2:])

    def follow(self) -> Any:
        """Puts the copy behind the product on the current stream. Returns the event that it ends with. Called again if
        the product is launched again."""
        self._back = self._staging.watch()
        arrival, self._places = self._staging.begin_download(self._copied, self._back)
        return arrival

    def computed(self, kernel_ms: float) -> None:
        """Called when the product has come. The device is idle then, and others may have it."""
        self._cores.release_idle()
        self._times = Times(kernel_ms, self._copying, self._back)
        self._bytes = bytearray(self._places[0])
        self._digest = digest_of(self._bytes)
        self._elements = self._product = _as_product(self._bytes, self._delivered, self._problem)
        if self._epilogue is not None:
            self._product = _as_product(bytearray(self._places[1]), self._copied[1], self._problem)
        self.matrices = operands_as_checked(self._problem, self._operands[0], self._operands[1], self._product)

    @property
    def digest(self) -> int:
        return self._digest

    def wrong_elements(self) -> int:
        return wrong_on_host(self._problem, self._epilogue, self._product, self._elements)

    def verify_operands(self) -> None:
        """Compares the operands in this process's memory: the check compared the product with these, and so with the
        device's copies too."""
        verify_on_host(self._operands)

    def chunks(self) -> Iterator[memoryview]:
        yield memoryview(self._bytes)


def _as_product(data: bytearray, matrix: DeviceMatrix, problem: Problem) -> Array:
    elements = np.frombuffer(data, STORAGE_DTYPES[matrix.layout.dtype])
    return elements.reshape(problem.batch, problem.m, problem.n)
