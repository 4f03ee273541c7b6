"""A product with its operands, as its check asks for it: one class for matrices in this process's memory, and one for
matrices on a GPU (`worker/cuda/check/checked.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from jobs.formats.elements import Array
from worker.check.elementwise import Operands
from worker.check.host_matrix import HostMatrix
from worker.check.host_sketch import float_sketch
from worker.check.integer_sketch import wrong_rows
from worker.check.rounding import Rounding
from worker.check.sketch import Sketch


@dataclass(frozen=True, slots=True)
class RowErrors:
    """Of each row, its worst element's error over its class's bound, (batch, m); the flags are those of `Sketch`, and
    elements under them are left out."""

    worst: Array
    bad_rows: Array
    bad_columns: Array
    odd_columns: Array


class Checkable(Protocol):
    """Shapes are those after transposition: a (·, m, k), b (·, k, n), c (batch, m, n)."""

    @property
    def elementwise(self) -> Operands:
        """Single elements of the three matrices."""

    def direct(self, rounding: Rounding) -> RowErrors | None:
        """Floats: every element computed again, where that costs no more than a sketch. None where it does."""

    def sketch(
        self, *, width: int, floor: float, common: bool, excluded: Array | None, rng: np.random.Generator
    ) -> Sketch:
        """Floats. As `worker.check.host_sketch.float_sketch`."""

    def wrong_rows(self, *, wraps: bool, rng: np.random.Generator) -> Array:
        """Integers. As `worker.check.integer_sketch.wrong_rows`."""


class HostProduct:
    """Everything in this process's memory."""

    def __init__(self, a: HostMatrix, b: HostMatrix, c: HostMatrix) -> None:
        self._a, self._b, self._c = a, b, c

    @property
    def elementwise(self) -> Operands:
        return Operands(self._a, self._b, self._c)

    def direct(self, rounding: Rounding) -> RowErrors | None:
        return None

    def sketch(
        self, *, width: int, floor: float, common: bool, excluded: Array | None, rng: np.random.Generator
    ) -> Sketch:
        three = self._a, self._b, self._c
        return float_sketch(*three, width=width, floor=floor, common=common, excluded=excluded, rng=rng)

    def wrong_rows(self, *, wraps: bool, rng: np.random.Generator) -> Array:
        return wrong_rows(self._a, self._b, self._c, wraps=wraps, rng=rng)
