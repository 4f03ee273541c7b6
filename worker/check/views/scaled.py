"""An 8-bit operand with block scales, as the check reads it: its dequantised values.

Single elements are exact in float64. Blocks of them are rounded to float32, once each, which the bound of a product
with scales allows for (`kernels/model/accuracy.py`). The matrix is not copied as a whole: its blocks are made when they
are read.
"""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName
from kernels.model.scales import SCALED_DTYPE, Block
from worker.check.elements import as_float64, widen
from worker.check.host_matrix import At, HostMatrix


class ScaledMatrix(HostMatrix):
    """Elements (batch, rows, columns) with their block scales, one for each block of rows and columns; nothing is
    copied."""

    dtype: DTypeName = "float32"

    def __init__(self, elements: Array, scales: Array, block: Block) -> None:
        self._elements, self._scales, self._block = elements, scales, block
        self.shape = (elements.shape[0], elements.shape[1], elements.shape[2])

    @property
    def array(self) -> Array:
        return self.part((slice(0, self.shape[0]), slice(0, self.shape[1])))

    @property
    def itemsize(self) -> int:
        return 4

    def part(self, at: At) -> Array:
        items, rows = at
        of_rows = np.arange(rows.start, min(rows.stop, self.shape[1])) // self._block[0]
        of_columns = np.arange(self.shape[2]) // self._block[1]
        scales = self._scales[items][:, of_rows[:, np.newaxis], of_columns]
        with np.errstate(invalid="ignore"):
            values: Array = widen(np.ascontiguousarray(self._elements[at]), SCALED_DTYPE) * scales
        return values

    def transposed(self) -> HostMatrix:
        rows, columns = self._block
        return ScaledMatrix(self._elements.swapaxes(1, 2), self._scales.swapaxes(1, 2), (columns, rows))

    def item(self, index: int) -> HostMatrix:
        elements, scales = (each[index % self.shape[0]][np.newaxis] for each in (self._elements, self._scales))
        return ScaledMatrix(elements, scales, self._block)

    def elements(self, item: int, rows: Array, columns: Array) -> Array:
        index = item % self.shape[0]
        scales = self._scales[index, rows // self._block[0], columns // self._block[1]].astype(np.float64)
        values: Array = as_float64(self._elements[index, rows, columns], SCALED_DTYPE) * scales
        return values
