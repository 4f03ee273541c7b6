"""The error of a product: as a whole, in its worst row and column, and in its worst element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jobs.formats.elements import Array
from kernels.model.accuracy import ElementBound

Matrix = Any  # a NumPy or a CuPy array


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of one product, relative to the true one."""

    frobenius: float
    worst_row: float  # Euclidean norm of a row's error over the row's norm
    worst_column: float
    worst_element: float  # over its accuracy class's bound, without the allowance for drifting partial sums


class Float64Reference:
    """The true product in float64, and |A|·|B|; on the device if the operands are CuPy's arrays."""

    def __init__(self, a: Matrix, b: Matrix) -> None:
        """`a` is m×k and `b` k×n."""
        a, b = a.astype(np.float64), b.astype(np.float64)
        self.true: Matrix = a @ b
        self._longest = float(_norms(a, 1).max()) * float(_norms(b, 0).max())
        self._magnitudes: Matrix = abs(a) @ abs(b)

    def errors(self, c: Matrix, bound: ElementBound) -> Errors:
        """Errors of the product `c`, m×n, in a class with this bound. Errors of a row of zeros count as infinite."""
        error = c - self.true
        magnitudes = self._longest if bound.normwise else self._magnitudes
        granted = bound.sum * magnitudes
        granted = granted + bound.output * (abs(self.true) + granted) + bound.underflow
        return Errors(
            frobenius=_worst(_norms(error, None), _norms(self.true, None)),
            worst_row=_worst(_norms(error, 1), _norms(self.true, 1)),
            worst_column=_worst(_norms(error, 0), _norms(self.true, 0)),
            worst_element=float((abs(error) / granted).max()),
        )


def relative_error(c: Array, true: Array) -> float:
    """In the Frobenius norm, for matrices on the host."""
    return float(np.linalg.norm(c - true) / np.linalg.norm(true))


def _norms(values: Matrix, axis: int | None) -> Array:
    """Norms, on the host."""
    norms = (values * values).sum(axis=axis) ** 0.5
    return np.atleast_1d(norms.get() if hasattr(norms, "get") else norms)


def _worst(errors: Array, sizes: Array) -> float:
    """Largest ratio; 0/0 is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(errors == 0.0, 0.0, errors / sizes).max())
