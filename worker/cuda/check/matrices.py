"""Matrices on the device as the check of a product reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import cupy
import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName
from worker.cuda.compile import Compiler
from worker.cuda.memory import DeviceMatrix
from worker.cuda.sources import gather_program

THREADS = 256


@dataclass(frozen=True, slots=True)
class MatrixOnDevice:
    """A matrix of shape (items, rows, columns) as it enters the product; `transposed` where it is stored transposed."""

    compiler: Compiler
    matrix: DeviceMatrix
    shape: tuple[int, int, int]
    transposed: bool = False
    first: int = 0  # item of the stored batch at which `shape` begins

    @property
    def dtype(self) -> DTypeName:
        return self.matrix.layout.dtype

    @property
    def address(self) -> int:
        """The address of the first element."""
        layout = self.matrix.layout
        return self.matrix.address + self.first * layout.stride * layout.itemsize

    @property
    def pitch(self) -> int:
        """Elements from one stored row to the next."""
        return self.matrix.layout.pitch

    @property
    def stride(self) -> int:
        """Elements from one item to the next; 0 where there is one."""
        return self.matrix.layout.stride if self.shape[0] > 1 else 0

    def item(self, index: int) -> Self:
        """One matrix of the batch; one that serves the whole batch, for any index."""
        return replace(self, first=self.first + index % self.shape[0], shape=(1, *self.shape[1:]))

    def elements(self, item: int, rows: Array, columns: Array) -> Array:
        """float64 of shape broadcast(rows, columns), read from the device."""
        rows, columns = np.broadcast_arrays(rows, columns)
        count = rows.size
        if not count:
            return np.zeros(rows.shape)
        places = cupy.asarray(np.stack([rows.ravel(), columns.ravel()]).astype(np.int64))
        found = cupy.empty(count, np.float64)
        steps = (np.int64(1), np.int64(self.pitch)) if self.transposed else (np.int64(self.pitch), np.int64(1))
        arguments = (np.uint64(self.item(item).address), *steps, places[0], places[1], found, np.int64(count))
        function = self.compiler.function(gather_program(self.dtype), "gather")
        function((-(-count // THREADS),), (THREADS,), arguments)
        gathered: Array = found.get()
        return gathered.reshape(rows.shape)


class CheckedMatrices(NamedTuple):
    """A, B and their product on one device, as its check reads them."""

    a: MatrixOnDevice
    b: MatrixOnDevice
    c: MatrixOnDevice

    @property
    def compiler(self) -> Compiler:
        return self.c.compiler
