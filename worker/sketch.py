"""Random projections of a product and its operands in this process's memory, as the check of a product compares them.

`worker/verify.py` says what they are for and gives their names: X, Y, Z, P, Q, R, S. The GPU worker has a twin with the
same meaning (`worker/device_sketch.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobs.matrices import Array
from worker.host_matrix import HostMatrix, finite_blocks, widened_blocks

VECTORS = 8
MEAN_SQUARE = 7 / 3  # of 1 + r, with r uniform in [0, 1)
RUN = 256  # columns added up in the element type before float64 takes over
SHORTEST_IN_FLOAT32 = 512  # sums of products; the check's own rounding would count beside that of shorter ones
LARGEST_EXPONENTS = {np.float32: 100, np.float64: 400}  # of columns of B, for arithmetic in these
TINY = 1e-25  # squares below it may have lost terms in float32
FLOAT64_EXPONENT = 500  # of elements whose squares float64 holds


@dataclass(frozen=True, slots=True)
class Sketch:
    """What is left of a product of floats: one figure for each row i and group g of columns, (batch, m, groups).

    Elements that are NaN or infinite are left out of all sums, and so are columns that were excluded.
    """

    difference: Array  # max over the vectors of |S − P|
    q: Array
    r: Array
    unit: Array  # (batch or 1, groups): root of Σⱼ wⱼ
    bad_rows: Array  # bool (batch or 1, m): of A, with a NaN or an infinity
    bad_columns: Array  # bool (batch or 1, n): of B
    odd_columns: Array  # bool (batch, n): of C, with elements that are not finite though their row and column are
    exponents: Array  # int (batch or 1, m or 1): 2^exponent was taken out of each row of A and C


def group_starts(n: int, width: int) -> Array:
    return np.arange(0, n, width)


def float_sketch(
    a: HostMatrix,
    b: HostMatrix,
    c: HostMatrix,
    *,
    width: int,
    floor: float,
    common: bool,
    excluded: Array | None,
    rng: np.random.Generator,
) -> Sketch:
    """Columns are in groups of `width`. `floor` is added to operands' magnitudes, in squares. `common`: columns of B
    are scaled alike. `excluded` (batch or 1, n): columns to leave out."""
    if excluded is None:
        is_long = a.dtype != "float64" and a.shape[2] >= SHORTEST_IN_FLOAT32
        arithmetic = np.float32 if is_long else np.float64
        quick = _Quick(a, b, c, width, floor, common, rng, arithmetic).sketch()
        if quick is not None:
            return quick
    return _Careful(a, b, c, width, floor, common, excluded, rng).sketch()


def _signed(rng: np.random.Generator, shape: tuple[int, ...], dtype: type[np.floating]) -> Array:
    """±(1 + r)."""
    drawn = rng.random(shape, dtype=np.float32) * np.float32(2) - np.float32(1)
    weights: Array = (drawn + np.copysign(np.float32(1), drawn)).astype(dtype)
    return weights


def _in_runs(values: Array, vectors: Array, run: int) -> Array:
    """values (…, rows, columns) times vectors (…, columns, V), by runs of columns: float64 (…, runs, rows, V)."""
    columns = values.shape[-1]
    cut = columns // run * run
    heads = values[..., :cut].reshape(*values.shape[:-1], cut // run, run).swapaxes(-2, -3)
    of_runs = vectors[..., :cut, :].reshape(*vectors.shape[:-2], cut // run, run, vectors.shape[-1])
    parts = np.matmul(heads, of_runs)
    if cut < columns:
        rest = np.matmul(values[..., cut:], vectors[..., cut:, :])[..., np.newaxis, :, :]
        parts = np.concatenate([parts, rest], axis=-3) if cut else rest
    total: Array = parts.astype(np.float64)
    return total


def _grouped(values: Array, vectors: Array, width: int) -> Array:
    """The same by groups of columns: (…, rows, groups, V)."""
    columns = values.shape[-1]
    run = min(width, RUN)
    parts = _in_runs(values, vectors, run)
    if columns <= width:
        parts = parts.sum(axis=-3, keepdims=True)
    elif run < width:
        parts = np.add.reduceat(parts, group_starts(parts.shape[-3], width // run), axis=-3)
    return parts.swapaxes(-2, -3)


def _squares(values: Array, roots: Array, width: int) -> Array:
    """Σ of squares of values (…, rows, columns) times roots (…, 1, columns), by groups of columns."""
    weighted = values * roots
    if values.shape[-1] <= width:
        alone: Array = np.vecdot(weighted, weighted)[..., np.newaxis].astype(np.float64)
        return alone
    total: Array = np.add.reduceat(np.square(weighted), group_starts(values.shape[-1], width), axis=-1)
    return total.astype(np.float64)


def _whole(values: Array, vectors: Array) -> Array:
    """values (…, rows, depth) times vectors (…, depth, anything): float64."""
    total: Array = _in_runs(values, vectors, RUN).sum(axis=-3)
    return total


class _Quick:
    """By BLAS in float32 or float64, each matrix read once or twice. Q is taken from eight random projections rather
    than from squares: a row's may come out too small by chance, and the row is then looked at again."""

    def __init__(
        self,
        a: HostMatrix,
        b: HostMatrix,
        c: HostMatrix,
        width: int,
        floor: float,
        common: bool,
        rng: np.random.Generator,
        arithmetic: type[np.floating],
    ) -> None:
        self._a, self._b, self._c = a, b, c
        self._width, self._floor, self._common, self._rng = width, floor, common, rng
        self._arithmetic = arithmetic

    def sketch(self) -> Sketch | None:
        """None where the arithmetic has not the range, or elements are not finite."""
        with np.errstate(all="ignore"):
            exponents = self._exponents()
            if exponents is None:
                return None
            n = self._c.shape[2]
            vectors = _signed(self._rng, (*exponents.shape, VECTORS), self._arithmetic)
            vectors = np.ldexp(vectors, -exponents[..., np.newaxis])
            squares = MEAN_SQUARE * np.ldexp(1.0, -2 * exponents)
            of_groups = np.add.reduceat(squares, group_starts(n, self._width), axis=-1)
            y = self._projected(self._b, vectors)
            z = np.square(y).mean(axis=-1) + self._floor**2 * of_groups[:, np.newaxis]
            p, q = self._of_a(y, z)
            if self._floor:
                q += self._floor**2 * z.sum(axis=1)[:, np.newaxis]
            s = self._projected(self._c, vectors)
            difference = np.abs(s - p).max(axis=-1)
            # A rounding to 16 bits is most of the noise then, and of a known size: R has to be exact.
            r = self._squares_of_c(exponents) if self._c.array.itemsize < 4 else np.square(p).mean(axis=-1)
        if not (np.isfinite(difference).all() and np.isfinite(q).all()):
            return None
        none = np.zeros(1, bool)
        return Sketch(
            difference,
            q,
            r,
            np.sqrt(of_groups),
            np.broadcast_to(none, (1, self._c.shape[1])),
            np.broadcast_to(none, (1, n)),
            np.broadcast_to(none, (self._c.shape[0], n)),
            np.zeros((1, 1), np.int64),
        )

    def _exponents(self) -> Array | None:
        """Of columns of B (batch or 1, n); None where an element is not finite, or a column out of range."""
        squares = _column_squares(self._b, np.float32 if self._b.dtype != "float64" else np.float64)
        if self._b.dtype != "float64" and (squares < TINY).any():  # they may have underflowed
            squares = _column_squares(self._b, np.float64)
        exponents = _half_exponents(squares)
        if self._common:
            exponents[:] = exponents.max(initial=0)
        is_usable = np.isfinite(squares).all() and (np.abs(exponents) <= LARGEST_EXPONENTS[self._arithmetic]).all()
        return exponents if is_usable else None

    def _projected(self, matrix: HostMatrix, vectors: Array) -> Array:
        """(batch or 1, rows, groups, V)."""
        items, rows, columns = matrix.shape
        groups = -(-columns // self._width)
        total = np.empty((max(items, len(vectors)), rows, groups, VECTORS))
        for at, values in widened_blocks(matrix):
            items_at, part = _aligned(at, items, vectors)
            total[items_at, at[1]] = _grouped(values, part, self._width)
        return total

    def _squares_of_c(self, exponents: Array) -> Array:
        """R, (batch, m, groups)."""
        items, rows, n = self._c.shape
        roots = np.ldexp(np.float32(MEAN_SQUARE**0.5), -exponents)[:, np.newaxis, :]
        total = np.empty((items, rows, -(-n // self._width)))
        for at, values in widened_blocks(self._c):
            part = roots if len(roots) == 1 else roots[at[0]]
            total[at] = _squares(values, part, self._width)
        return total

    def _of_a(self, y: Array, z: Array) -> tuple[Array, Array]:
        """P (batch or 1, m, groups, V) and Q (batch or 1, m, groups)."""
        items, rows, _ = self._a.shape
        batch, depth, groups, _ = y.shape
        signs = np.copysign(1.0, _signed(self._rng, (batch, depth, 1, VECTORS), np.float64))
        both = np.concatenate([y, signs * np.sqrt(z)[..., np.newaxis]], axis=-1).astype(self._arithmetic)
        both = both.reshape(batch, depth, groups * 2 * VECTORS)
        total = np.empty((max(items, batch), rows, groups, 2 * VECTORS))
        for at, values in widened_blocks(self._a):
            items_at, part = _aligned(at, items, both)
            done = _whole(values, part)
            total[items_at, at[1]] = done.reshape(*done.shape[:-1], groups, 2 * VECTORS)
        return total[..., :VECTORS], np.square(total[..., VECTORS:]).mean(axis=-1)


def _column_squares(matrix: HostMatrix, arithmetic: type[np.floating]) -> Array:
    """(batch or 1, columns), float64."""
    squares = np.zeros((matrix.shape[0], matrix.shape[2]))
    for at, values in widened_blocks(matrix):
        wide = values.astype(arithmetic, copy=False)
        squares[at[0]] += np.einsum("bij,bij->bj", wide, wide)
    return squares


def _aligned(at: tuple[slice, slice], items: int, vectors: Array) -> tuple[slice, Array]:
    """Which items a block's sums are for, and their part of the vectors; either may be one for the whole batch."""
    if items == 1:
        return slice(None), vectors
    return at[0], vectors if len(vectors) == 1 else vectors[at[0]]


def _half_exponents(squares: Array) -> Array:
    """Exponents of the square roots; 0 for zeros."""
    halves: Array = np.where(squares > 0, (np.frexp(squares)[1] + 1) // 2, 0)
    return halves


class _Careful:
    """In float64, without elements that are not finite; float64 matrices with their rows' and columns' exponents
    apart."""

    def __init__(
        self,
        a: HostMatrix,
        b: HostMatrix,
        c: HostMatrix,
        width: int,
        floor: float,
        common: bool,
        excluded: Array | None,
        rng: np.random.Generator,
    ) -> None:
        self._a, self._b, self._c, self._rng = a, b, c, rng
        self._width, self._floor = width, floor
        peaks_a, self._bad_rows = _peaks(a)
        peaks_b, self._bad_columns = _peaks(b.transposed())
        is_wide = a.dtype == "float64"
        self._of_rows = _exponents(peaks_a) if is_wide else np.zeros(peaks_a.shape, np.int64)
        self._of_columns = _exponents(peaks_b)
        if common:
            self._of_columns[:] = self._of_columns.max(initial=0)
        left_out = self._bad_columns if excluded is None else self._bad_columns | excluded
        weights = _signed(rng, (*left_out.shape, VECTORS), np.float64)
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
        units = kept * np.ldexp(1.0, -2 * np.maximum(self._of_columns, -FLOAT64_EXPONENT))
        of_groups: Array = np.add.reduceat(units, starts, axis=-1)
        y, z = np.empty((batch, depth, groups, VECTORS)), np.empty((batch, depth, groups))
        for at, values, _ in finite_blocks(self._b):
            items_at, weights = _aligned(at, items, self._weights)
            exponents = self._of_columns if items == 1 else self._of_columns[at[0]]
            scaled = np.ldexp(values, -exponents[:, np.newaxis, :])
            y[items_at, at[1]] = _grouped(scaled, weights, self._width)
            mine = kept if len(kept) == 1 else kept[items_at]
            z[items_at, at[1]] = np.add.reduceat(np.square(scaled) * mine[:, np.newaxis, :], starts, axis=-1)
        return y, z + self._floor**2 * of_groups[:, np.newaxis], of_groups

    def _of_a(self, y: Array, z: Array) -> tuple[Array, Array]:
        items, rows, _ = self._a.shape
        batch, depth, groups, _ = y.shape
        p, q = np.empty((max(items, batch), rows, groups, VECTORS)), np.empty((max(items, batch), rows, groups))
        flat = y.reshape(batch, depth, groups * VECTORS)
        for at, values, _ in finite_blocks(self._a):
            items_at, part = _aligned(at, items, flat)
            of_z = _aligned(at, items, z)[1]
            exponents = self._of_rows[at] if items > 1 else self._of_rows[:, at[1]]
            scaled = np.ldexp(values, -exponents[..., np.newaxis])
            done = _whole(scaled, part)
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
            s[at] = _grouped(scaled, weights, self._width)
            r[at] = _squares(scaled, roots if len(roots) == 1 else roots[at[0]], self._width)
        return s, r, odd


def _peaks(matrix: HostMatrix) -> tuple[Array, Array]:
    """Of each row, the largest finite magnitude, and whether any element is not finite: (batch or 1, rows)."""
    items, rows, _ = matrix.shape
    peaks, bad = np.zeros((items, rows)), np.zeros((items, rows), bool)
    for at, values, finite in finite_blocks(matrix):
        peaks[at] = np.abs(values).max(axis=-1, initial=0.0)
        bad[at] = ~finite.all(axis=-1)
    return peaks, bad


def _exponents(peaks: Array) -> Array:
    exponents: Array = np.frexp(peaks)[1].astype(np.int64)
    return exponents
