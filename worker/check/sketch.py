"""Random projections of a product and its operands in this process's memory, as the check of a product compares them.

`worker/check/verify.py` says what they are for and gives their names: X, Y, Z, P, Q, R, S. The GPU worker has a twin
with the same meaning (`worker/cuda/check/sketch.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName
from worker.check.host_matrix import HostMatrix

VECTORS = 8
MEAN_SQUARE = 7 / 3  # mean of (1 + r)², with r uniform in [0, 1)
RUN = 256  # columns summed in the element type before the sum continues in float64
ROWS = 128  # multiplied at a time: BLAS has faster ways for products as small as these
# Smallest normal number of a product's type.
SMALLEST_NORMAL: dict[DTypeName, float] = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126}


@dataclass(frozen=True, slots=True)
class Sketch:
    """The sketch of a float product: one figure for each row i and group g of columns, (batch, m, groups).

    Elements that are NaN or infinite are left out of all sums, and so are columns that were excluded.
    """

    difference: Array  # max over the vectors of |S − P|
    q: Array
    r: Array
    unit: Array  # (batch or 1, groups): root of Σⱼ wⱼ
    bad_rows: Array  # bool (batch or 1, m): of A, with a NaN or an infinity
    bad_columns: Array  # bool (batch or 1, n): of B, the same, and those that are too small
    odd_columns: Array  # bool (batch, n): of C, with elements that are not finite though their row and column are
    exponents: Array  # int (batch or 1, m or 1): 2^exponent was taken out of each row of A and C


@dataclass(frozen=True, slots=True)
class SketchInput:
    """A float product in this process's memory, and how it is sketched."""

    a: HostMatrix
    b: HostMatrix
    c: HostMatrix
    width: int  # columns in a group
    floor: float  # added to the magnitudes of operands, in squares
    common: bool  # whether all columns of B are scaled alike
    excluded: Array | None  # bool (batch or 1, n): columns to leave out
    rng: np.random.Generator

    @property
    def min_norm(self) -> float:
        """Of a column of B that is not zero. What one below it is off by does not shrink with it, so its weight, which
        would be large, would hide all others: below the product's normal numbers, or where elements are rounded as the
        floor is, whatever they are."""
        return max(SMALLEST_NORMAL.get(self.c.dtype, 0.0), self.floor * sqrt(self.a.shape[2]))


def group_starts(n: int, width: int) -> Array:
    return np.arange(0, n, width)


def signed_weights(rng: np.random.Generator, shape: tuple[int, ...], dtype: type[np.floating]) -> Array:
    """±(1 + r)."""
    drawn = rng.random(shape, dtype=np.float32)
    drawn *= np.float32(2)
    drawn -= np.float32(1)
    drawn += np.copysign(np.float32(1), drawn)
    return drawn.astype(dtype, copy=False)


def in_runs(values: Array, vectors: Array, run: int) -> Array:
    """values (…, rows, columns) times vectors (…, columns, V), by runs of columns: (…, runs, rows, V) of their type."""
    columns = values.shape[-1]
    cut = columns // run * run
    heads = values[..., :cut].reshape(*values.shape[:-1], cut // run, run).swapaxes(-2, -3)
    of_runs = vectors[..., :cut, :].reshape(*vectors.shape[:-2], cut // run, run, vectors.shape[-1])
    parts = _by_rows(heads, of_runs)
    if cut < columns:
        rest = _by_rows(values[..., cut:], vectors[..., cut:, :])[..., np.newaxis, :, :]
        parts = np.concatenate([parts, rest], axis=-3) if cut else rest
    return parts


def _by_rows(values: Array, vectors: Array) -> Array:
    """values (…, rows, columns) times vectors (…, columns, V)."""
    rows = values.shape[-2]
    if rows % ROWS or not rows:
        whole: Array = np.matmul(values, vectors)
        return whole
    blocks = values.reshape(*values.shape[:-2], rows // ROWS, ROWS, values.shape[-1])  # a view, whatever its strides
    done: Array = np.matmul(blocks, vectors[..., np.newaxis, :, :])
    return done.reshape(*done.shape[:-3], rows, done.shape[-1])


def grouped(values: Array, vectors: Array, width: int) -> Array:
    """`values` times `vectors`, summed by groups of `width` columns: float64 (…, rows, groups, V)."""
    columns = values.shape[-1]
    run = min(width, RUN)
    parts = in_runs(values, vectors, run)
    if columns <= width:
        parts = np.add.reduce(parts, axis=-3, dtype=np.float64, keepdims=True)
    elif run < width:
        parts = np.add.reduceat(parts, group_starts(parts.shape[-3], width // run), axis=-3, dtype=np.float64)
    return parts.swapaxes(-2, -3).astype(np.float64, copy=False)


def squares_of_groups(values: Array, roots: Array, width: int) -> Array:
    """Σ of squares of values (…, rows, columns) times roots (…, 1, columns), by groups of columns."""
    weighted = values * roots
    if values.shape[-1] <= width:
        alone: Array = np.vecdot(weighted, weighted)[..., np.newaxis].astype(np.float64)
        return alone
    total: Array = np.add.reduceat(np.square(weighted), group_starts(values.shape[-1], width), axis=-1)
    return total.astype(np.float64)


def in_whole(values: Array, vectors: Array) -> Array:
    """values (…, rows, depth) times vectors (…, depth, anything): float64."""
    total: Array = np.add.reduce(in_runs(values, vectors, RUN), axis=-3, dtype=np.float64)
    return total


def aligned(at: tuple[slice, slice], items: int, vectors: Array) -> tuple[slice, Array]:
    """The items that a block's sums belong to, and their part of the vectors; both may be shared by the whole batch."""
    if items == 1:
        return slice(None), vectors
    return at[0], vectors if len(vectors) == 1 else vectors[at[0]]
