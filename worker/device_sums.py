"""The check's passes over matrices that lie on the device. Means what `worker/sums.py` says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cupy
import numpy as np

from jobs.matrices import Array
from kernels.arrange import MAX_GRID_Z
from kernels.numerics import DTypeName
from worker.compile import Compiler
from worker.device_memory import DeviceMatrix
from worker.sources import CHECK_CHUNK, CHECK_CHUNK_TRANSPOSED, CHECK_THREADS, check_program
from worker.sums import HostMatrix, Sums


@dataclass(frozen=True, slots=True)
class MatrixOnDevice:
    """A matrix of shape (batch, rows, columns) as it enters the product; `turned` where it is stored transposed.

    `host` is the same matrix in this process's memory, where it is an operand: single elements come from there.
    """

    compiler: Compiler
    matrix: DeviceMatrix
    first: int  # item of the batch at which `shape` begins
    shape: tuple[int, int, int]
    turned: bool
    host: HostMatrix | None = None

    @property
    def dtype(self) -> DTypeName:
        return self.matrix.layout.dtype

    def transposed(self) -> MatrixOnDevice:
        batch, rows, columns = self.shape
        host = self.host.transposed() if self.host else None
        return replace(self, shape=(batch, columns, rows), turned=not self.turned, host=host)

    def item(self, index: int) -> MatrixOnDevice:
        index %= self.shape[0]
        host = self.host.item(index) if self.host else None
        return replace(self, first=self.first + index, shape=(1, *self.shape[1:]), host=host)

    def largest(self) -> float:
        assert self.host is not None, "only operands are asked for it"
        return self.host.largest()

    def times(self, vector: Array, exponent: int = 0) -> Sums:
        products, squares, bad = self._sums(vector.astype(np.float64), exponent)
        return Sums(products.view(np.float64), squares.view(np.float64), bad.view(np.int64))

    def times_modulo(self, vector: Array) -> Array:
        products: Array = self._sums(vector.astype(np.int64), 0)[0].view(np.int64)
        return products.astype(np.int32).astype(np.int64)

    def elements(self, item: int, rows: Array, columns: Array) -> Array:
        if self.host is not None:
            return self.host.elements(item, rows, columns)
        rows, columns = np.broadcast_arrays(rows, columns)
        places = cupy.asarray(np.stack([rows.ravel(), columns.ravel()]).astype(np.int64))
        found = cupy.empty(rows.size, np.float64)
        count = rows.size
        arguments = (*self._place(item % self.shape[0]), places[0], places[1], found, np.int64(count))
        if count:
            self._function("gather")((-(-count // CHECK_THREADS),), (CHECK_THREADS,), arguments)
        gathered: Array = found.get()
        return gathered.reshape(rows.shape)

    def _function(self, name: str) -> Any:
        return self.compiler.function(check_program(self.dtype, transposed=self.turned), name)

    def _place(self, item: int) -> tuple[np.generic, np.generic]:
        """Address and row step of one matrix."""
        layout = self.matrix.layout
        offset = (self.first + item) * layout.stride * layout.itemsize
        return np.uint64(self.matrix.address + offset), np.int64(layout.pitch)

    def _sums(self, vector: Array, exponent: int) -> Array:
        """Products, squares and bad counts, as 64-bit words: (3, batch, rows)."""
        own, rows, columns = self.shape
        batch = max(own, len(vector))
        results = cupy.zeros((3, batch, rows), np.uint64)
        if rows and columns:
            address, pitch = self._place(0)
            stride = self.matrix.layout.stride if own > 1 else 0
            sizes = (np.int64(rows), np.int64(columns), pitch, np.int64(stride))
            vectors = (cupy.asarray(vector), np.int64(columns if len(vector) > 1 else 0), np.int32(exponent))
            arguments = (address, *sizes, *vectors, *results, np.int64(batch))
            self._function("sums")(self._grid(batch), (CHECK_THREADS, 1, 1), arguments)
        found: Array = results.get()
        return found

    def _grid(self, batch: int) -> tuple[int, int, int]:
        """Blocks for the rows times those for the pieces of a row, as `sums.cu` counts them."""
        _, rows, columns = self.shape
        at_once = CHECK_THREADS if self.turned else CHECK_THREADS // 32
        chunk = CHECK_CHUNK_TRANSPOSED if self.turned else CHECK_CHUNK
        return -(-rows // at_once) * -(-columns // chunk), 1, min(batch, MAX_GRID_Z)
