"""Lengths of slots: which there are, and what fits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobs.matrices.interface import parts_bytes
from jobs.matrices.slot_format import (
    LABEL_BYTES,
    MIN_SLOT_BYTES,
    TRAILER_BYTES,
    capacity,
    is_slot_length,
    label,
    slot_length,
    trailer,
)

SIZES = st.integers(MIN_SLOT_BYTES, 1 << 40)


def lengths(up_to: int) -> list[int]:
    """All that slots of matrices up to that size have."""
    found, size = [], MIN_SLOT_BYTES
    while size <= up_to:
        found.append(slot_length(size))
        size = capacity(size) + 1
    return found


@given(size=SIZES)
def test_elements_digests_and_trailer_fit_and_at_most_an_eighth_is_unused(size: int) -> None:
    assert size <= capacity(size) <= size * 9 / 8
    assert slot_length(size) >= size + parts_bytes(size) + TRAILER_BYTES
    assert slot_length(size) % 4096 == 0


def test_a_label_has_room_in_slots_of_every_length() -> None:
    size = MIN_SLOT_BYTES
    while size <= 2**40:
        held = capacity(size)
        assert slot_length(held) >= held + parts_bytes(held) + LABEL_BYTES + TRAILER_BYTES
        size = held + 1


def test_a_label_is_of_one_matrix_and_its_digests() -> None:
    labels = {label(name, parts) for name in ("op_1", "op_2") for parts in (bytes(16), bytes(15) + b"1")}
    assert len(labels) == 4 and {len(each) for each in labels} == {LABEL_BYTES}


def test_eight_lengths_to_an_octave_and_none_is_lost_on_powers_of_two() -> None:
    assert len(lengths(2**32)) == 8 * (32 - 18) + 1
    assert all(capacity(2**power) == 2**power for power in range(18, 40))


def test_a_length_is_known_for_one() -> None:
    known = set(lengths(2**34))
    for length in sorted(known):
        assert all(is_slot_length(near) == (near in known) for near in (length - 4096, length - 1, length, length + 1))
    assert not any(map(is_slot_length, (0, 1, 4096, MIN_SLOT_BYTES, slot_length(MIN_SLOT_BYTES // 2))))


@given(size=SIZES)
def test_a_plain_file_of_the_same_matrix_has_another_length(size: int) -> None:
    assert slot_length(size) != size + parts_bytes(size)


@given(one=SIZES, other=SIZES)
def test_a_trailer_is_of_one_size(one: int, other: int) -> None:
    assert len(trailer(one)) == TRAILER_BYTES
    assert (trailer(one) == trailer(other)) == (one == other)
