"""The interface between a product and its check: one class for matrices in this process's memory, and one for matrices
on a GPU (`worker/cuda/check/device_product.py`).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName
from worker.check.elementwise import Operands, worst_of
from worker.check.host_matrix import HostMatrix
from worker.check.host_sketch import float_sketch
from worker.check.integer_sketch import wrong_rows
from worker.check.rounding import Rounding
from worker.check.row_errors import AllWithin, RowErrors, row_errors
from worker.check.sketch import SketchInput


class Checkable(Protocol):
    """Shapes are those after transposition: a (·, m, k), b (·, k, n), c (batch, m, n)."""

    @property
    def after(self) -> tuple[float, DTypeName] | None:
        """alpha and c's type if c is alpha·A·B + beta·C + bias, computed from float32 sums and rounded once; otherwise
        None.
        """

    @property
    def elementwise(self) -> Operands:
        """Access to single elements of the three matrices."""

    def direct(self, rounding: Rounding) -> RowErrors | None:
        """For floats: the errors of all elements, recomputed, if that costs no more than a sketch; otherwise None."""

    def sketched(
        self, rounding: Rounding, *, width: int, excluded: Array | None, rng: np.random.Generator
    ) -> RowErrors | AllWithin:
        """For floats: the result of random projections. `width` and `excluded` are as in `sketch.SketchInput`."""

    def recomputed(self, rows: Array, columns: Array, rounding: Rounding) -> float:
        """For floats: as `worker.check.elementwise.worst_of`."""

    def wrong_rows(self, *, wraps: bool, rng: np.random.Generator) -> Array:
        """For integers: as `worker.check.integer_sketch.wrong_rows`."""


class HostProduct:
    """A product whose matrices are all in this process's memory."""

    after = None

    def __init__(self, a: HostMatrix, b: HostMatrix, c: HostMatrix) -> None:
        self._a, self._b, self._c = a, b, c

    @property
    def elementwise(self) -> Operands:
        return Operands(self._a, self._b, self._c)

    def direct(self, rounding: Rounding) -> RowErrors | None:
        return None

    def sketched(
        self, rounding: Rounding, *, width: int, excluded: Array | None, rng: np.random.Generator
    ) -> RowErrors:
        source = SketchInput(
            self._a,
            self._b,
            self._c,
            width=width,
            floor=rounding.floor,
            common=rounding.normwise,
            excluded=excluded,
            rng=rng,
        )
        return row_errors(float_sketch(source), rounding)

    def recomputed(self, rows: Array, columns: Array, rounding: Rounding) -> float:
        return worst_of(self.elementwise, rows, columns, rounding)

    def wrong_rows(self, *, wraps: bool, rng: np.random.Generator) -> Array:
        return wrong_rows(self._a, self._b, self._c, wraps=wraps, rng=rng)
