"""A sketch of matrices with NaN or infinities, or with elements near the ends of the range."""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array
from worker.check.host_matrix import HostMatrix, finite_blocks
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

FLOAT64_EXPONENT = 500  # of elements whose squares float64 holds
SMALLEST_EXPONENT = -1073  # of any element but zero


class CarefulSketch:
    """Computed in float64, without elements that are not finite; exponents of rows and columns of float64 matrices are
    factored out.
    """

    def __init__(self, source: SketchInput) -> None:
        self._a, self._b, self._c = source.a, source.b, source.c
        self._width, self._floor = source.width, source.floor
        peaks_a, self._bad_rows = _peaks(source.a)
        peaks_b, self._bad_columns = _peaks(source.b.transposed())
        is_wide = source.a.dtype == "float64"
        self._of_rows = _exponents(peaks_a) if is_wide else np.zeros(peaks_a.shape, np.int64)
        self._of_columns = _exponents(peaks_b)
        self._zeros = peaks_b == 0.0
        if source.common:
            self._of_columns[:] = self._of_columns.max(initial=0)
        else:
            self._bad_columns |= ~self._zeros & (peaks_b < source.min_norm)
            self._of_columns[self._zeros] = SMALLEST_EXPONENT  # whatever C has there is wrong
        left_out = self._bad_columns if source.excluded is None else self._bad_columns | source.excluded
        weights = signed_weights(source.rng, (*left_out.shape, VECTORS), np.float64)
        self._weights = np.where(left_out[..., np.newaxis], 0.0, weights)
        self._left_out = left_out

    def sketch(self) -> Sketch:
        with np.errstate(all="ignore"):
            y, z, of_groups = self._of_b()
            p, q = self._of_a(y, z)
            s, r, odd = self._of_c(p.shape)
            return Sketch(
                difference=np.abs(s - p).max(axis=-1, initial=0.0),
                q=q,
                r=r,
                unit=np.sqrt(of_groups),
                bad_rows=self._bad_rows,
                bad_columns=self._bad_columns,
                odd_columns=odd,
                exponents=self._of_rows,
            )

    def _of_b(self) -> tuple[Array, Array, Array]:
        items, depth, n = self._b.shape
        groups = -(-n // self._width)
        starts = group_starts(n, self._width)
        batch = len(self._weights)
        kept = np.where(self._left_out, 0.0, MEAN_SQUARE)
        units = np.where(self._zeros, 0.0, kept * np.ldexp(1.0, -2 * np.maximum(self._of_columns, -FLOAT64_EXPONENT)))
        of_groups: Array = np.add.reduceat(units, starts, axis=-1)
        y, z = np.empty((batch, depth, groups, VECTORS)), np.empty((batch, depth, groups))
        for at, values, _ in finite_blocks(self._b):
            items_at, weights = aligned(at, items, self._weights)
            exponents = self._of_columns if items == 1 else self._of_columns[at[0]]
            scaled = np.ldexp(values, -exponents[:, np.newaxis, :])
            y[items_at, at[1]] = grouped(scaled, weights, self._width)
            mine = kept if len(kept) == 1 else kept[items_at]
            z[items_at, at[1]] = np.add.reduceat(np.square(scaled) * mine[:, np.newaxis, :], starts, axis=-1)
        return y, z + self._floor**2 * of_groups[:, np.newaxis], of_groups

    def _of_a(self, y: Array, z: Array) -> tuple[Array, Array]:
        items, rows, _ = self._a.shape
        batch, depth, groups, _ = y.shape
        p, q = np.empty((max(items, batch), rows, groups, VECTORS)), np.empty((max(items, batch), rows, groups))
        flat = y.reshape(batch, depth, groups * VECTORS)
        for at, values, _ in finite_blocks(self._a):
            items_at, part = aligned(at, items, flat)
            of_z = aligned(at, items, z)[1]
            exponents = self._of_rows[at] if items > 1 else self._of_rows[:, at[1]]
            scaled = np.ldexp(values, -exponents[..., np.newaxis])
            done = in_whole(scaled, part)
            p[items_at, at[1]] = done.reshape(*done.shape[:-1], groups, VECTORS)
            q[items_at, at[1]] = np.matmul(np.square(scaled) + self._floor**2, of_z)
        return p, q

    def _of_c(self, shape: tuple[int, ...]) -> tuple[Array, Array, Array]:
        batch, _, n = self._c.shape
        s, r, odd = np.empty((batch, *shape[1:])), np.empty((batch, *shape[1:3])), np.zeros((batch, n), bool)
        roots = np.where(self._left_out, 0.0, MEAN_SQUARE**0.5)[:, np.newaxis, :]
        for at, values, finite in finite_blocks(self._c):
            weights = self._weights if len(self._weights) == 1 else self._weights[at[0]]
            of_columns = self._of_columns if len(self._of_columns) == 1 else self._of_columns[at[0]]
            of_rows = self._of_rows[:, at[1]] if len(self._of_rows) == 1 else self._of_rows[at]
            if not finite.all():
                bad_rows = self._bad_rows[:, at[1]] if len(self._bad_rows) == 1 else self._bad_rows[at]
                left_out = self._left_out if len(self._left_out) == 1 else self._left_out[at[0]]
                unexpected = ~finite & ~bad_rows[..., np.newaxis] & ~left_out[:, np.newaxis, :]
                odd[at[0]] |= unexpected.any(axis=1)
            scaled = np.ldexp(values, -(of_rows[..., np.newaxis] + of_columns[:, np.newaxis, :]))
            s[at] = grouped(scaled, weights, self._width)
            r[at] = squares_of_groups(scaled, roots if len(roots) == 1 else roots[at[0]], self._width)
        return s, r, odd


def _peaks(matrix: HostMatrix) -> tuple[Array, Array]:
    """For each row, the largest finite magnitude, and whether any element is not finite: (batch or 1, rows)."""
    items, rows, _ = matrix.shape
    peaks, bad = np.zeros((items, rows)), np.zeros((items, rows), bool)
    for at, values, finite in finite_blocks(matrix):
        peaks[at] = np.abs(values).max(axis=-1, initial=0.0)
        bad[at] = ~finite.all(axis=-1)
    return peaks, bad


def _exponents(peaks: Array) -> Array:
    exponents: Array = np.frexp(peaks)[1].astype(np.int64)
    return exponents
