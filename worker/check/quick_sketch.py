"""A sketch by BLAS, of finite matrices whose exponents leave room."""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array
from worker.check.host_matrix import HostMatrix, widened_blocks
from worker.check.sketch import (
    MEAN_SQUARE,
    VECTORS,
    Sketch,
    SketchInput,
    aligned,
    group_starts,
    grouped,
    in_whole,
    signed_weights,
    squares_of_groups,
)

LARGEST_EXPONENTS = {np.float32: 100, np.float64: 400}  # largest exponents of columns of B, for these arithmetic types
TINY = 1e-25  # smaller squares may have lost terms in float32


class QuickSketch:
    """Computed by BLAS in float32 or float64, reading each matrix once or twice. Q is estimated from eight random
    projections instead of squares; if a row's estimate is too small by chance, the row is checked again.
    """

    def __init__(self, source: SketchInput, arithmetic: type[np.floating]) -> None:
        self._a, self._b, self._c = source.a, source.b, source.c
        self._width, self._floor, self._common = source.width, source.floor, source.common
        self._rng, self._arithmetic, self._min_norm = source.rng, arithmetic, source.min_norm

    def sketch(self) -> Sketch | None:
        """The sketch; None if the range of the arithmetic does not suffice, or elements are not finite."""
        with np.errstate(all="ignore"):
            columns = self._columns()
            if columns is None:
                return None
            exponents, are_zero = columns
            n = self._c.shape[2]
            vectors = signed_weights(self._rng, (*exponents.shape, VECTORS), self._arithmetic)
            vectors *= np.ldexp(self._arithmetic(1), -exponents)[..., np.newaxis]
            squares = np.where(are_zero, 0.0, MEAN_SQUARE * np.ldexp(1.0, -2 * exponents))
            of_groups = np.add.reduceat(squares, group_starts(n, self._width), axis=-1)
            y = self._projected(self._b, vectors)
            z = _mean_square(y) + self._floor**2 * of_groups[:, np.newaxis]
            p, q = self._of_a(y, z)
            if self._floor:
                q += self._floor**2 * z.sum(axis=1)[:, np.newaxis]
            s = self._projected(self._c, vectors)
            difference = np.abs(s - p).max(axis=-1)
            # The rounding to 16 bits is then most of the noise and of a known size, so R must be exact.
            r = self._squares_of_c(exponents) if self._c.itemsize < 4 else _mean_square(p)
        if not (np.isfinite(difference).all() and np.isfinite(q).all()):
            return None
        batch, m, _ = self._c.shape
        return Sketch(
            difference,
            q,
            r,
            np.sqrt(of_groups),
            np.zeros((1, m), bool),
            np.zeros((1, n), bool),
            np.zeros((batch, n), bool),
            np.zeros((1, 1), np.int64),
        )

    def _columns(self) -> tuple[Array, Array] | None:
        """Exponents of the columns of B, and which of these are zero (batch or 1, n); None if an element is not finite,
        or a column is out of range or too small. Zeros have the least exponent: whatever C has there is wrong.
        """
        squares = _column_squares(self._b, np.float32 if self._b.dtype != "float64" else np.float64)
        if self._b.dtype != "float64" and (squares < TINY).any():  # they may have underflowed
            squares = _column_squares(self._b, np.float64)
        largest, are_zero = LARGEST_EXPONENTS[self._arithmetic], squares == 0.0
        exponents = _half_exponents(squares)
        is_usable = np.isfinite(squares).all() and (np.abs(exponents) <= largest).all()
        if self._b.dtype == "float64" and are_zero.any():  # or their squares alone
            is_usable &= not (are_zero & _columns_with_elements(self._b)).any()
        if self._common:
            exponents[:] = exponents.max(initial=0)
        else:
            is_usable &= not (~are_zero & (squares < self._min_norm**2)).any()
            exponents[are_zero] = -largest
        return (exponents, are_zero) if is_usable else None

    def _projected(self, matrix: HostMatrix, vectors: Array) -> Array:
        """(batch or 1, rows, groups, V)."""
        items, rows, columns = matrix.shape
        groups = -(-columns // self._width)
        total = np.empty((max(items, len(vectors)), rows, groups, VECTORS))
        for at, values in widened_blocks(matrix, self._arithmetic):
            items_at, part = aligned(at, items, vectors)
            total[items_at, at[1]] = grouped(values, part, self._width)
        return total

    def _squares_of_c(self, exponents: Array) -> Array:
        """R, (batch, m, groups)."""
        items, rows, n = self._c.shape
        roots = np.ldexp(np.float32(MEAN_SQUARE**0.5), -exponents)[:, np.newaxis, :]
        total = np.empty((items, rows, -(-n // self._width)))
        for at, values in widened_blocks(self._c, self._arithmetic):
            part = roots if len(roots) == 1 else roots[at[0]]
            total[at] = squares_of_groups(values, part, self._width)
        return total

    def _of_a(self, y: Array, z: Array) -> tuple[Array, Array]:
        """P (batch or 1, m, groups, V) and Q (batch or 1, m, groups)."""
        items, rows, _ = self._a.shape
        batch, depth, groups, _ = y.shape
        signs = self._rng.random((batch, depth, 1, VECTORS), dtype=np.float32) - np.float32(0.5)
        both = np.empty((batch, depth, groups, 2 * VECTORS), self._arithmetic)
        both[..., :VECTORS] = y
        np.copysign(np.sqrt(z)[..., np.newaxis], signs, out=both[..., VECTORS:], casting="same_kind")
        both = both.reshape(batch, depth, groups * 2 * VECTORS)
        total = np.empty((max(items, batch), rows, groups, 2 * VECTORS))
        for at, values in widened_blocks(self._a, self._arithmetic):
            items_at, part = aligned(at, items, both)
            done = in_whole(values, part)
            total[items_at, at[1]] = done.reshape(*done.shape[:-1], groups, 2 * VECTORS)
        return total[..., :VECTORS], _mean_square(total[..., VECTORS:])


def _column_squares(matrix: HostMatrix, arithmetic: type[np.floating]) -> Array:
    """(batch or 1, columns), float64."""
    squares = np.zeros((matrix.shape[0], matrix.shape[2]))
    for at, values in widened_blocks(matrix, arithmetic):
        wide = values.astype(arithmetic, copy=False)
        squares[at[0]] += np.einsum("bij,bij->bj", wide, wide)
    return squares


def _columns_with_elements(matrix: HostMatrix) -> Array:
    """Mask (batch or 1, columns) of those with an element that is not zero."""
    found = np.zeros((matrix.shape[0], matrix.shape[2]), bool)
    for at, values in widened_blocks(matrix, np.float64):
        found[at[0]] |= (values != 0.0).any(axis=1)
    return found


def _mean_square(values: Array) -> Array:
    """The mean square over the vectors."""
    total: Array = np.vecdot(values, values)
    total /= VECTORS
    return total


def _half_exponents(squares: Array) -> Array:
    """Exponents of the square roots; 0 for zeros."""
    halves: Array = np.where(squares > 0, (np.frexp(squares)[1] + 1) // 2, 0)
    return halves
