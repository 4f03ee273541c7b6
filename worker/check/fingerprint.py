"""An additive fingerprint of parts of a matrix: the sum over one partition into parts equals the sum over any other.

Digests cover stored bytes in order, which a tile and its panels are not. Their fingerprint is Σ rᵢ·cⱼ·vᵢⱼ modulo 2⁶⁴,
with vᵢⱼ the bits of the element in row i and column j of the stored matrix, and odd weights r and c drawn anew for each
product. One wrong element is always detected, because rᵢ·cⱼ has an inverse; any other fault passes with a probability
of about 2⁻⁶⁰. Rows are numbered through all matrices of a batch. The parts of a complex element count as two elements.
`worker/cuda/src/fingerprint.cu` computes the same on a device.
"""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15  # increment of the Weyl sequence, as in splitmix64
COLUMN_SEED = 0xD1B54A32D192ED03  # columns have other weights than rows
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
BLOCK_ELEMENTS = 1 << 20


def row_weights(seed: int, first: int, count: int) -> Array:
    """uint64, odd: the outputs of splitmix64 from the `first` one on."""
    with np.errstate(over="ignore"):
        z = (np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)) * np.uint64(STEP) + np.uint64(seed)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        weights: Array = (z ^ (z >> np.uint64(31))) | np.uint64(1)
    return weights


def column_weights(seed: int, first: int, count: int) -> Array:
    return row_weights(seed ^ COLUMN_SEED, first, count)


def fingerprint(part: Array, seed: int, *, row: int, column: int) -> int:
    """The fingerprint of a two-dimensional array whose first element is at that position of the whole matrix."""
    if np.iscomplexobj(part):
        part, column = np.ascontiguousarray(part).view(part.real.dtype), 2 * column
    bits = BITS[part.dtype.itemsize]
    columns, total = column_weights(seed, column, part.shape[1]), 0
    height = max(1, BLOCK_ELEMENTS // max(1, part.shape[1]))
    for start in range(0, part.shape[0], height):
        block = np.ascontiguousarray(part[start : start + height]).view(bits).astype(np.uint64)
        rows = row_weights(seed, row + start, len(block))
        total += int((rows * (block * columns).sum(axis=1, dtype=np.uint64)).sum(dtype=np.uint64))
    return total & MASK


def fingerprint_of_items(part: Array, seed: int, *, item: int, row: int, column: int, rows: int) -> int:
    """The fingerprint of an array (items, rows, columns) out of a batch of matrices with `rows` rows each."""
    parts = (
        fingerprint(matrix, seed, row=(item + number) * rows + row, column=column) for number, matrix in enumerate(part)
    )
    return sum(parts) & MASK
