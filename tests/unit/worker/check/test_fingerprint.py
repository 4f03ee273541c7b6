"""Fingerprints: the same however a matrix is cut, and another one for other elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.formats.elements import STORAGE_DTYPES
from kernels.model.numerics import DTYPE_NAMES, DTypeName
from worker.check.fingerprint import MASK, fingerprint, fingerprint_of_items

SEED = 12345


def matrix(dtype: DTypeName, rows: int, columns: int, seed: int = 0) -> np.ndarray:
    raw = np.random.default_rng(seed).integers(0, 256, rows * columns * 16, dtype=np.uint8)
    stored = np.dtype(STORAGE_DTYPES[dtype])
    return raw[: rows * columns * stored.itemsize].view(stored).reshape(rows, columns)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(DTYPE_NAMES), st.integers(1, 40), st.integers(1, 40), st.data())
def test_parts_add_up_to_the_whole(dtype: DTypeName, rows: int, columns: int, data: st.DataObject) -> None:
    whole = matrix(dtype, rows, columns)
    row, column = data.draw(st.integers(0, rows)), data.draw(st.integers(0, columns))
    quarters = (
        (whole[:row, :column], 0, 0),
        (whole[:row, column:], 0, column),
        (whole[row:, :column], row, 0),
        (whole[row:, column:], row, column),
    )
    total = sum(fingerprint(part, SEED, row=first, column=second) for part, first, second in quarters) & MASK
    assert total == fingerprint(whole, SEED, row=0, column=0)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_each_flipped_bit_is_seen(dtype: DTypeName) -> None:
    whole = matrix(dtype, 5, 7)
    before = fingerprint(whole, SEED, row=0, column=0)
    for place in range(whole.nbytes * 8):
        other = whole.copy()
        other.reshape(-1).view(np.uint8)[place // 8] ^= 1 << place % 8
        assert fingerprint(other, SEED, row=0, column=0) != before


def test_a_part_elsewhere_and_swapped_rows_are_seen() -> None:
    whole = matrix("float32", 9, 9)
    swapped = whole[[1, 0, *range(2, 9)]]
    found = {fingerprint(each, SEED, row=0, column=0) for each in (whole, swapped, whole.T.copy())}
    found |= {fingerprint(whole, SEED, row=1, column=0), fingerprint(whole, SEED + 1, row=0, column=0)}
    assert len(found) == 5


def test_rows_are_counted_through_a_batch() -> None:
    batch = np.stack([matrix("int32", 4, 6, seed) for seed in range(3)])
    tall = batch.reshape(12, 6)
    assert fingerprint_of_items(batch, SEED, item=0, row=0, column=0, rows=4) == fingerprint(
        tall, SEED, row=0, column=0
    )
    part = fingerprint_of_items(batch[1:, 1:3, 2:], SEED, item=1, row=1, column=2, rows=4)
    rows = [5, 6, 9, 10]
    expected = sum(fingerprint(tall[[row], 2:], SEED, row=row, column=2) for row in rows) & MASK
    assert part == expected
