"""The check of a product with an epilogue of its kernel's, on the device: what comes before its sketch and after it
(`worker/cuda/src/fused_check.cu`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from kernels.model.arrange import MAX_GRID_Z
from kernels.model.fused import FusedEpilogue
from worker.check.elementwise import Added
from worker.cuda.check.matrices import MatrixOnDevice
from worker.cuda.check.sketch_argument import SketchParameters
from worker.cuda.check.sketch_plan import SketchPlan
from worker.cuda.compile import Compiler
from worker.cuda.epilogue.plan import bias_steps
from worker.cuda.memory import DeviceMatrix
from worker.cuda.results import float_word
from worker.cuda.sources import fused_check_program

THREADS, WARPS, ROWS = 256, 8, 4  # as in fused_check.cu
SIZE_BLOCKS, HEIGHT = 1024, 64  # blocks of `size_of_a`; rows of a block of `weigh_addends`


@dataclass(frozen=True, slots=True)
class FusedCheck:
    """The check of D = alpha·A·B + beta·C + bias, where `c` or `bias` may be None."""

    compiler: Compiler
    fused: FusedEpilogue
    alpha: float
    beta: float
    a: MatrixOnDevice
    b: MatrixOnDevice
    d: MatrixOnDevice
    c: DeviceMatrix | None
    bias: DeviceMatrix | None

    @property
    def added(self) -> Added:
        """What is added to single elements, for the host, which computes them again."""
        with_factors = ((self.beta, self.c), (1.0, self.bias))
        return Added(self.alpha, tuple((factor, self._as_read(each)) for factor, each in with_factors if each))

    def weigh(self, peaks: int) -> None:
        """Adds the sums of squares of what is added to D's columns to those of B's columns, on the current stream,
        before the sketch."""
        if self.c is None and self.bias is None:
            return
        batch, m, n = self.d.shape
        at, size = self.a.matrix.layout, cupy.cuda.alloc(8)
        size.memset_async(0, 8)
        sizes = (at.rows, at.columns, at.pitch, at.stride, at.batch)
        self._function("size_of_a")((SIZE_BLOCKS, 1, 1), (THREADS, 1, 1), _words(self.a.address, size.ptr, *sizes))
        grid = (-(-n // THREADS), -(-m // HEIGHT), min(batch, MAX_GRID_Z))
        words = (*self._addends, size.ptr, peaks, m, n, batch, self.b.shape[0], *self._lie, *self._factors)
        rows_of_a = self.a.shape[0] * self.a.shape[1]
        self._function("weigh_addends")(grid, (THREADS, 1, 1), _words(*words, rows_of_a))

    def judge(self, address_of: Callable[[str], int], plan: SketchPlan, parameters: SketchParameters) -> None:
        """After it. `address_of` gives those of the sketch's arrays."""
        batch, m, n = self.d.shape
        items_x, (width, groups) = plan.items_x, plan.grouped
        of_sketch = ("p", "q", "r", "x", "w", "unit", "bad_rows", "bad_columns", "odd_columns", "difference", "worst")
        words = (self.d.address, *self._addends, *map(address_of, of_sketch), m, n, batch, self.b.shape[0], items_x)
        words += (width, groups, self.d.pitch, self.d.stride, *self._lie, *self._factors)
        factors = map(float_word, (*parameters.fused, parameters.tolerance[2]))
        units = batch * groups * -(-m // ROWS)
        self._function("fused_check")((-(-units // WARPS), 1, 1), (THREADS, 1, 1), _words(*words, *factors))

    def _function(self, name: str) -> Any:
        return self.compiler.function(fused_check_program(self.a.dtype, self.fused), name)

    @property
    def bias_steps(self) -> tuple[int, int]:
        return bias_steps(None if self.bias is None else self.bias.layout)

    @property
    def _addends(self) -> tuple[int, int]:
        """Addresses; where there is none, nothing is read."""
        c, bias = self.c or self.d.matrix, self.bias or self.d.matrix
        return c.address, bias.address

    @property
    def _lie(self) -> tuple[int, int, int, int]:
        at = (self.c or self.d.matrix).layout
        return at.pitch, at.stride, *self.bias_steps

    @property
    def _factors(self) -> tuple[int, int]:
        return float_word(self.alpha), float_word(self.beta)

    def _as_read(self, matrix: DeviceMatrix) -> MatrixOnDevice:
        at = matrix.layout
        return MatrixOnDevice(self.compiler, matrix, (at.batch, at.rows, at.columns))


def _words(*values: int) -> tuple[np.generic, ...]:
    return tuple(np.uint64(value) for value in values)
