"""The digest of stored bytes: the same however the bytes come, another for any other bytes."""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from jobs.formats.elements import Array
from jobs.matrices.digest import (
    FIRST_PARTS,
    PART,
    Digest,
    digest_of,
    digest_of_parts,
    part_begin,
    part_count,
    part_of,
    spans,
)

SIZES = (0, 1, 7, PART - 1, PART, PART + 1, 2 * PART - 1, 2 * PART, 3 * PART + 5, 9 * PART, 9 * PART + PART // 2)


def some_bytes(size: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def by_definition(data: bytes) -> int:
    """An independent definition, separate from the code under test."""
    count = max(1, len(data) // PART)
    ends = [PART * (i + 1) for i in range(count - 1)] + [len(data)]
    parts = [xxh3_64_intdigest(data[PART * i : end]) for i, end in enumerate(ends)]
    return xxh3_64_intdigest(b"".join(struct.pack("<Q", part) for part in parts))


@pytest.mark.parametrize("size", SIZES)
def test_the_digest_is_the_one_that_is_written_down(size: int) -> None:
    data = some_bytes(size)
    digest = Digest(size)
    digest.update(data)
    parts = np.frombuffer(digest.parts(), "<u8")
    assert len(parts) == part_count(size)
    assert by_definition(data) == digest_of(data) == digest.value() == digest_of_parts(parts)


def test_known_values() -> None:
    """Digests are kept with matrices and computed on devices, so they must never change."""
    assert digest_of(b"") == 0x9F77619E37E86919
    assert digest_of(bytes(range(256)) * 256) == 0xB266128BC7BA926F


@pytest.mark.parametrize("size", SIZES)
def test_parts_cover_the_bytes(size: int) -> None:
    begins = [part_begin(part, size) for part in range(part_count(size) + 1)]
    assert begins[0] == 0 and begins[-1] == size
    for part, (begin, end) in enumerate(pairwise(begins)):
        assert size < PART or PART <= end - begin < 2 * PART
        assert {part_of(position, size) for position in {begin, end - 1} if begin <= position} == {part}


@given(st.sampled_from(SIZES), st.lists(st.integers(0, 10 * PART), max_size=12))
def test_any_cut_gives_the_same(size: int, cuts: list[int]) -> None:
    data = some_bytes(size)
    digest = Digest(size)
    edges = [0, *sorted(min(cut, size) for cut in cuts), size]
    for begin, end in pairwise(edges):
        digest.update(memoryview(data)[begin:end])
    assert digest.value() == digest_of(data)


@given(st.sampled_from(SIZES[1:]), st.data())
def test_a_flipped_bit_changes_it(size: int, data: st.DataObject) -> None:
    whole = bytearray(some_bytes(size))
    before = digest_of(whole)
    whole[data.draw(st.integers(0, size - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert digest_of(whole) != before


@given(st.permutations(range(9)))
def test_parts_in_another_order_change_it(order: list[int]) -> None:
    parts = np.frombuffer(some_bytes(9 * PART), np.uint8).reshape(9, PART)
    assert (digest_of(parts[order]) == digest_of(parts)) is (order == sorted(order))


def test_swapped_rows_and_columns_change_it() -> None:
    array = np.arange(200 * 300, dtype=np.float32).reshape(200, 300)
    rows, columns = array.copy(), array.copy()
    rows[[3, 150]] = rows[[150, 3]]
    columns[:, [3, 4]] = columns[:, [4, 3]]
    assert len({digest_of(each) for each in (array, rows, columns, array[:-1], np.zeros_like(array))}) == 5


@pytest.mark.parametrize("array", [np.arange(60_000, dtype=np.float64), np.zeros((0, 4), np.float32)])
def test_an_array_counts_in_row_major_order(array: Array) -> None:
    matrix = array.reshape(-1, 4)
    assert digest_of(matrix) == digest_of(matrix.tobytes()) == digest_of(np.asfortranarray(matrix))


@given(st.integers(0, 50), st.integers(1, 2000), st.integers(1, 300), st.booleans())
def test_spans_go_through_all_parts(first: int, parts: int, count: int, grows: bool) -> None:
    found = list(spans(first, first + parts, count, grows=grows))
    assert [begin for begin, _ in found] == [first, *[end for _, end in found[:-1]]]
    assert found[-1][1] == first + parts
    for begin, end in found:
        assert 0 < end - begin <= (max(FIRST_PARTS, (begin - first) // 2) if grows else count)


def test_a_reply_begins_with_few_pieces_that_are_small() -> None:
    """Who reads nothing of it costs little; and each piece costs who reads it all some time."""
    sizes = [(end - begin) * PART for begin, end in spans(0, (4 << 20) // PART, (4 << 20) // PART, grows=True)]
    assert sizes[0] == 64 << 10 and len(sizes) < 14
