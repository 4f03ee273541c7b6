"""Digits of float32 numbers, and what products made of them are off by: the model that the kernel is held to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from jobs.formats.elements import Array
from tests.support.kernels.emulated import (
    LARGEST,
    WAYS,
    Way,
    digits,
    error_bound,
    fixed_point,
    product,
    sums_of,
    units,
)

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
LINE = arrays.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=FLOATS)
EACH = pytest.mark.parametrize("way", WAYS)
CHUNK = 508 * 64  # steps of k between two times that sums are taken out of int32


@given(LINE)
def test_an_element_is_its_digits_but_for_two_roundings(lines: Array) -> None:
    """To float32 as it is scaled, and to an integer."""
    q, places = fixed_point(lines), units(lines)[:, np.newaxis] * 2.0**-16
    of = digits(q)
    assert np.abs(q).max() <= LARGEST
    np.testing.assert_array_equal(sum(of[i].astype(np.int64) << (24 - 8 * i) for i in range(4)), q)
    off = np.abs(q * places - lines.astype(np.float64))
    assert np.all(off <= (0.5 + (q % 512 == 127) + np.abs(q) * 2.0**-24) * places * (1 + 2.0**-20))


@given(LINE)
def test_scales_bring_peaks_near_to_the_largest_and_not_beyond(lines: Array) -> None:
    peaks = np.abs(fixed_point(lines)).max(axis=-1)
    assert np.all(peaks <= LARGEST)
    assert np.all((peaks >= 0.79 * LARGEST) | (np.abs(lines).max(axis=-1) == 0))


@given(LINE)
def test_the_first_digits_are_the_element_rounded_to_them(lines: Array) -> None:
    """So that one set of digits serves products of three and of four."""
    q = fixed_point(lines)
    of = digits(q).astype(np.int64)
    first = (of[0] << 24) + (of[1] << 16) + (of[2] << 8)
    assert np.all(np.abs(first - q) <= 128)


def test_elements_half_way_between_two_of_three_digits_go_up_as_often_as_down() -> None:
    """The third digit is even then; so what is left of many elements is no more than chance has it."""
    halves = np.arange(-(2**13), 2**13) * 256 + 128
    lines = np.append(0x7F000000, halves).astype(np.float32)[
        np.newaxis
    ]  # the first is its own q, and so are the others
    of = digits(fixed_point(lines)).astype(np.int64)[:, 0, 1:]
    assert np.all(of[2] % 2 == 0)
    assert ((of[0] << 24) + (of[1] << 16) + (of[2] << 8) - halves).sum() == 0


@pytest.mark.parametrize("peak", [1.0, np.float32(0.99609375), np.float32(1 - 2.0**-24), 2.0**-149, 3.0e38])
def test_peaks_at_the_ends_of_their_range(peak: float) -> None:
    lines = np.array([[peak, -peak, 0.0]], np.float32)
    q = fixed_point(lines)
    assert 0.79 * LARGEST <= q[0, 0] <= LARGEST
    assert abs(q[0, 1] + q[0, 0]) <= 1
    assert q[0, 0] * units(lines)[0] * 2.0**-16 == pytest.approx(float(np.float32(peak)), rel=2.0**-24, abs=0)


@EACH
@settings(max_examples=60)
@given(st.data())
def test_a_product_is_within_its_bound(way: Way, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, 30))
    moderate = st.floats(width=32, min_value=-(2.0**60), max_value=2.0**60)
    a = data.draw(arrays.arrays(np.float32, (3, k), elements=moderate))
    b = data.draw(arrays.arrays(np.float32, (4, k), elements=moderate))
    true = a.astype(np.float64) @ b.astype(np.float64).T
    granted = error_bound(a, b, way) * (1 + 2.0**-23) + 2.0**-24 * np.abs(true) + 2.0**-149
    assert np.all(np.abs(product(a, b, way).astype(np.float64) - true) <= granted)


@EACH
def test_whole_numbers_come_out_to_the_last_bit(way: Way) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(-8, 9, (20, 300)).astype(np.float32), rng.integers(-8, 9, (30, 300)).astype(np.float32)
    np.testing.assert_array_equal(product(a, b, way), (a.astype(np.float64) @ b.T.astype(np.float64)))


@EACH
def test_no_sum_of_a_chunk_overflows(way: Way) -> None:
    """Digits of -128 throughout are the worst there is."""
    taken, sums = WAYS[way]
    terms = [sum(i + j == total for i in range(taken) for j in range(taken)) for total in range(sums)]
    assert max(terms) * 128 * 128 * CHUNK < 2**31
    put_together = terms[2] * 128 * 128 * CHUNK + ((terms[3] * 128 * 128 * CHUNK) >> 8 if sums == 4 else 0)
    assert put_together < 2**31


@EACH
def test_sums_of_real_data_fit_as_well(way: Way) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((8, 5000)).astype(np.float32) for _ in range(2))
    assert np.abs(sums_of(digits(fixed_point(a)), digits(fixed_point(b)), way)).max() < 2**31
