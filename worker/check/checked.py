"""A product with its operands, as its check asks for it: one class for matrices in this process's memory, and one for
matrices on a GPU (`worker/cuda/check/checked.py`)."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName
from worker.check.elementwise import Operands
from worker.check.host_matrix import HostMatrix
from worker.check.host_sketch import float_sketch
from worker.check.integer_sketch import wrong_rows
from worker.check.rounding import Rounding
from worker.check.row_errors import AllWithin, RowErrors, row_errors


class Checkable(Protocol):
    """Shapes are those after transposition: a (·, m, k), b (·, k, n), c (batch, m, n)."""

    @property
    def after(self) -> tuple[float, DTypeName] | None:
        """Where c is alpha·A·B + beta·C + bias, of float32 sums and rounded once: alpha, and c's type; else None."""

    @property
    def elementwise(self) -> Operands:
        """Single elements of the three matrices."""

    def direct(self, rounding: Rounding) -> RowErrors | None:
        """Floats: every element computed again, where that costs no more than a sketch. None where it does."""

    def sketched(
        self, rounding: Rounding, *, width: int, excluded: Array | None, rng: np.random.Generator
    ) -> RowErrors | AllWithin:
        """Floats: what random projections say. `width` and `excluded` are those of `host_sketch.float_sketch`."""

    def wrong_rows(self, *, wraps: bool, rng: np.random.Generator) -> Array:
        """Integers. As `worker.check.integer_sketch.wrong_rows`."""


class HostProduct:
    """Everything in this process's memory."""

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
        floor, common = rounding.floor, rounding.normwise
        three = self._a, self._b, self._c
        found = float_sketch(*three, width=width, floor=floor, common=common, excluded=excluded, rng=rng)
        return row_errors(found, rounding)

    def wrong_rows(self, *, wraps: bool, rng: np.random.Generator) -> Array:
        return wrong_rows(self._a, self._b, self._c, wraps=wraps, rng=rng)
