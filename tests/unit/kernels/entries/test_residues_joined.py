"""How `fp64_emulated` puts remainders together, by its model: no small integer is off, and whole numbers stay whole."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernels.model.numerics import Problem
from tests.support.kernels.products import operands
from tests.support.kernels.residues import (
    BASE,
    BITS,
    COUNTS,
    MODULI,
    NORMS,
    integers,
    judge,
    put_together,
    scaled_back,
    scales_of,
)


def remainders_of(whole: int, count: int, *, zeros_are_moduli: bool) -> list[int]:
    """As sums leave them: a multiple of the modulus may be that itself, but for 256, which a byte cannot be."""
    found = [whole % modulus for modulus in MODULI[:count]]
    return [
        modulus if zeros_are_moduli and each == 0 and modulus < 256 else each
        for each, modulus in zip(found, MODULI, strict=False)
    ]


@st.composite
def wholes(draw: st.DrawFn) -> tuple[int, int]:
    """As large as lines allow, of any size and with any number of zeros at the end; and how many moduli."""
    count = draw(st.sampled_from(COUNTS))
    most = int(NORMS[count]) ** 2
    size = draw(st.integers(0, most.bit_length() - 1))
    whole = draw(st.integers(0, min(2 << size, most)))
    zeros = draw(st.integers(0, size))
    return draw(st.sampled_from([1, -1])) * (whole >> zeros << zeros), count


@settings(max_examples=500)
@given(wholes(), st.booleans())
def test_remainders_are_put_together_without_error(drawn: tuple[int, int], zeros_are_moduli: bool) -> None:
    """Integers below 2^94 exactly, whatever cancels among the pieces, and larger ones all but exactly."""
    whole, count = drawn
    most, rest = put_together(remainders_of(whole, count, zeros_are_moduli=zeros_are_moduli), count)
    off = abs((Fraction(most) + Fraction(rest)) * BASE - whole)
    assert off == 0 if abs(whole) < 2**94 else off <= Fraction(abs(whole), 2**95)
    assert most == float(Fraction(whole, BASE))


@settings(max_examples=300)
@given(st.integers(-(2**53), 2**53), st.integers(0, 54), st.tuples(*[st.sampled_from([4, 5, 6, 7])] * 2), st.data())
def test_a_whole_number_stays_whole(element: int, power: int, quarters: tuple[int, int], data: st.DataObject) -> None:
    """An element of C, times scales of a row and a column that make whole numbers of whole numbers, comes back."""
    whole = element * quarters[0] * quarters[1] << power
    fit = [count for count in COUNTS if abs(whole) <= int(NORMS[count]) ** 2]
    assume(fit)
    count = data.draw(st.sampled_from(fit))
    found = put_together(remainders_of(whole, count, zeros_are_moduli=data.draw(st.booleans())), count)
    assert np.ldexp(scaled_back(*found, quarters), BITS - 4 - power) == element


# Products of `make stress` of which elements that should be 0 once were not: sizes, and an element of each.
STRESS_SEED = 1039161919
STRESSED = {
    948: ((79, 640, 686), (False, False), (0, 174)),
    1113: ((96, 128, 196), (True, False), (0, 99)),
    1377: ((1434, 128, 268), (True, False), (55, 73)),
    2664: ((352, 208, 3681), (True, False), (24, 178)),
    2994: ((1397, 1460, 512), (True, True), (0, 1345)),
}


@pytest.mark.parametrize("number", STRESSED)
def test_small_integers_that_cancel(number: int) -> None:
    (m, n, k), transposes, (row, column) = STRESSED[number]
    problem = Problem(m, n, k, "float64", 1, *transposes)
    stored_a, stored_b = operands(problem, np.random.default_rng((STRESS_SEED, number)), "integers")
    a = (stored_a.T if problem.transpose_a else stored_a)[row : row + 8]
    b = (stored_b if problem.transpose_b else stored_b.T)[column - 8 : column + 1]
    count = judge(a, b)
    assert count is not None
    scales_a, scales_b = scales_of(a, count), scales_of(b, count)
    whole = integers(a, scales_a) @ integers(b, scales_b).T
    for i, (power_a, quarters_a) in enumerate(scales_a):
        for j, (power_b, quarters_b) in enumerate(scales_b):
            found = put_together(remainders_of(whole[i, j], count, zeros_are_moduli=True), count)
            back = np.ldexp(scaled_back(*found, (quarters_a, quarters_b)), BITS - power_a - power_b)
            assert back == a[i] @ b[j]


def test_scales_of_whole_numbers_make_whole_numbers() -> None:
    """Where a line's norm is below 2^52. So nothing is rounded before remainders are taken."""
    rng = np.random.default_rng(5)
    for size in (1, 8, 2**20, 2**46):
        lines = rng.integers(-size, size + 1, (40, 4000)).astype(np.float64)
        assert np.sqrt((lines**2).sum(1)).max() < 2**52
        assert all(power >= 2 or not quarters for count in COUNTS for power, quarters in scales_of(lines, count))
