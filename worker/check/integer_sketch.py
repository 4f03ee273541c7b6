"""Exact random projections of integer products, to find the rows of C that differ from A·B."""

from __future__ import annotations

from math import frexp

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES
from worker.check.host_matrix import HostMatrix
from worker.check.sketch import VECTORS

WEIGHT_BITS = 12  # of a weight, which is 1 to 2^12
EXACT_BITS = 53  # of integers in float64
DEPTH = 1024  # columns of which float64 takes the sum at once


def wrong_rows(a: HostMatrix, b: HostMatrix, c: HostMatrix, *, wraps: bool, rng: np.random.Generator) -> Array:
    """Mask (batch, m) of rows of C for which C·x differs from A·(B·x) for one of VECTORS random integer vectors. With
    `wraps`, only residues modulo 2³² are compared; otherwise sums must stay below 2³¹, and are compared exactly.
    """
    vectors = rng.integers(1, (1 << WEIGHT_BITS) + 1, (1, c.shape[2], VECTORS), dtype=np.int64)
    y = _residues(_times(b, vectors), wraps)
    difference = _times(c, vectors) - _times(a, y)
    wrong: Array = (_residues(difference, wraps) != 0).any(axis=-1)
    return np.broadcast_to(wrong, c.shape[:2]).copy()


def _residues(values: Array, wraps: bool) -> Array:
    """The values modulo 2³², in ±2³¹, if `wraps`; otherwise unchanged."""
    return values.astype(np.int32).astype(np.int64) if wraps else values


def _times(matrix: HostMatrix, vectors: Array) -> Array:
    """Each row times the int64 vectors (batch or 1, columns, V), modulo 2⁶⁴: int64 (batch or 1, rows, V).

    BLAS does it in float64: vectors are cut into pieces so short that every sum of DEPTH terms is exact.
    """
    items, rows, columns = matrix.shape
    result = np.zeros((max(items, len(vectors)), rows, vectors.shape[-1]), np.int64)
    pieces = list(_pieces(vectors, _piece_bits(matrix, columns)))
    for at in matrix.blocks():
        values = matrix.array[at].astype(np.float64)
        target = slice(None) if items == 1 else at[0]
        for start in range(0, columns, DEPTH):
            run = slice(start, start + DEPTH)
            for piece, shift in pieces:
                part = piece if items == 1 or len(piece) == 1 else piece[at[0]]
                exact = np.matmul(values[..., run], part[:, run]).astype(np.int64)
                result[target, at[1]] += exact << np.int64(shift)
    return result


def _piece_bits(matrix: HostMatrix, columns: int) -> int:
    element_bits = 8 * DTYPES[matrix.dtype].itemsize - 1
    return EXACT_BITS - element_bits - frexp(min(columns, DEPTH))[1]


def _pieces(vectors: Array, bits: int) -> list[tuple[Array, int]]:
    """Splits vectors into unsigned pieces of `bits` bits as float64, each with its bit position; the highest piece has
    the sign.
    """
    largest = int(np.abs(vectors).max(initial=0)).bit_length()
    pieces, shift = [], 0
    while shift + bits < largest + 1:
        pieces.append((((vectors >> shift) & ((1 << bits) - 1)).astype(np.float64), shift))
        shift += bits
    pieces.append(((vectors >> shift).astype(np.float64), shift))
    return pieces
