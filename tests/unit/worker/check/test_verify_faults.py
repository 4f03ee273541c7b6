"""Faults that a check with signs alone lets through, on data where one column or row dominates: none may pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.numerics import AccuracyName, DTypeName, Problem
from tests.campaign.truth import truth_of
from tests.support.kernels.checks import checked, flipped
from tests.support.kernels.products import operands, stored
from worker.check.elements import as_float64
from worker.cpu.blas import multiply

TRIALS = 6  # each with fresh vectors


def assert_found(problem: Problem, a: Array, b: Array, wrong: Array, accuracy: AccuracyName | None = None) -> None:
    found = [checked(problem, a, b, wrong, np.random.default_rng(seed), accuracy).passed for seed in range(TRIALS)]
    assert found == [False] * TRIALS


def assert_passes(problem: Problem, a: Array, b: Array, c: Array, accuracy: AccuracyName | None = None) -> None:
    found = [checked(problem, a, b, c, np.random.default_rng(seed), accuracy).passed for seed in range(TRIALS)]
    assert found == [True] * TRIALS


def swap_columns(c: Array) -> Array:
    wrong = c.copy()
    wrong[:, [3, 90]] = c[:, [90, 3]]
    return wrong


def swap_rows(c: Array) -> Array:
    wrong = c.copy()
    wrong[[3, 90]] = c[[90, 3]]
    return wrong


def cancel_in_a_row(c: Array) -> Array:
    wrong = c.copy()
    wrong[7, 3] += 1
    wrong[7, 90] -= 1
    return wrong


def shift_a_tile(c: Array) -> Array:
    wrong = c.copy()
    wrong[16:32, 64:66] += 5
    return wrong


def negate_a_row(c: Array) -> Array:
    wrong = c.copy()
    wrong[20] *= -1
    return wrong


@pytest.mark.parametrize("spoil", [swap_columns, swap_rows, cancel_in_a_row, shift_a_tile, negate_a_row])
@pytest.mark.parametrize("k", [20, 300])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "float16"])
def test_faults_that_cancel_are_found(dtype: DTypeName, k: int, spoil: Callable[[Array], Array]) -> None:
    problem = Problem(96, 100, k, dtype)
    a, b = operands(problem, np.random.default_rng(k))
    c = multiply(problem, a, b)
    assert_passes(problem, a, b, c)
    wrong = spoil(as_float64(c, problem.product_dtype)) if dtype == "float16" else spoil(c)
    assert_found(problem, a, b, stored(wrong, "float16") if dtype == "float16" else wrong)


@pytest.mark.parametrize("dtype", ["int8", "int32"])
@pytest.mark.parametrize("bit", [0, 15, 30, 31])
def test_the_same_bit_of_two_columns_is_found(dtype: DTypeName, bit: int) -> None:
    """Also the highest, whose weight is 0 modulo 2³² once doubled."""
    problem = Problem(80, 90, 70, dtype)
    a, b = operands(problem, np.random.default_rng(bit))
    wrong = multiply(problem, a, b)
    wrong.view(np.uint32)[:, [5, 60]] ^= np.uint32(1 << bit)
    assert_found(problem, a, b, wrong)


def test_one_large_column_hides_no_other() -> None:
    problem = Problem(90, 80, 256, "float32")
    a, b = operands(problem, np.random.default_rng(2))
    b[:, 0] *= np.float32(1e8)
    c = multiply(problem, a, b)
    assert_passes(problem, a, b, c)
    rest, one = c.copy(), c.copy()
    rest[:, 1:] = 0
    one[10, np.argmax(np.abs(c[10, 1:])) + 1] *= np.float32(1.01)
    assert_found(problem, a, b, rest)
    assert_found(problem, a, b, one)


@pytest.mark.parametrize(
    ("dtype", "unit"), [("float32", 1e-8), ("float32", 1e-30), ("bfloat16", 1e-4), ("float64", 1e-18)]
)
def test_a_column_of_zeros_is_held_to_nothing_but_zeros(dtype: DTypeName, unit: float) -> None:
    """Where all others are small: padding, or what was pruned."""
    problem = Problem(90, 100, 1000, dtype)
    a, b = operands(problem, np.random.default_rng(8))
    wide = as_float64(b, dtype) * unit
    wide[:, 40:48] = 0.0
    b = stored(wide, dtype)
    c = multiply(problem, a, b)
    assert_passes(problem, a, b, c)
    wrong = c.copy()
    wrong[:, 44] = c[:, 70]
    assert_found(problem, a, b, wrong)
    beside = np.where(np.arange(100) == 5, np.float64(np.inf), wide)
    b = stored(beside, dtype)
    with np.errstate(all="ignore"):
        c = multiply(problem, a, b)
    assert_passes(problem, a, b, c)
    wrong = c.copy()
    wrong[:, 44] = c[:, 70]
    assert_found(problem, a, b, wrong)


@pytest.mark.parametrize(("dtype", "tiny"), [("float16", 2.0**-24), ("float32", 1e-44), ("bfloat16", 2.0**-133)])
def test_a_column_below_the_normal_numbers_hides_no_other(dtype: DTypeName, tiny: float) -> None:
    problem = Problem(90, 100, 1000, dtype)
    a, b = operands(problem, np.random.default_rng(9))
    wide = as_float64(b, dtype)
    wide[:, 7] = np.where(np.arange(1000) == 3, tiny, 0.0)
    b = stored(wide, dtype)
    c = multiply(problem, a, b)
    assert_passes(problem, a, b, c)
    row, one, own = c.copy(), c.copy(), c.copy()
    row[4], one[4, 50], own[4, 7] = c[5], c[4, 51], c[4, 8]
    for wrong in (row, one, own):
        assert_found(problem, a, b, wrong)


@pytest.mark.parametrize("exponent", [-20, -40, -100, -124])
def test_a_column_below_what_float16_keeps_hides_no_other(exponent: int) -> None:
    """In the class whose float32 operands are rounded to float16, by as much below 2⁻¹⁴ as there."""
    problem = Problem(90, 100, 1000, "float32")
    a, b = operands(problem, np.random.default_rng(11))
    b[:, 7] = np.ldexp(b[:, 7], exponent)
    c = multiply(problem, a, b)
    not_finite = b.copy()
    not_finite[3, 60] = np.inf
    row, raised, one = c.copy(), c.copy(), c.copy()
    row[4], one[4, np.argmax(np.abs(c[4]))] = 0, 0
    raised[4] *= np.float32(1.1)
    for of_b, right, wrongs in ((b, c, (row, raised, one)), (not_finite, multiply(problem, a, not_finite), ())):
        assert_passes(problem, a, of_b, right, "fp16")
        for wrong in wrongs or (np.where(np.arange(90)[:, np.newaxis] == 4, right[5], right),):
            assert_found(problem, a, of_b, wrong, "fp16")


@pytest.mark.parametrize("exponent", [-300, -545, -700, -1000])
def test_a_float64_column_is_checked_however_small_it_is(exponent: int) -> None:
    """Also where the squares of its elements are zero."""
    problem = Problem(90, 100, 1000, "float64")
    a, b = operands(problem, np.random.default_rng(12))
    b[:, 7] = np.ldexp(b[:, 7], exponent)
    c = multiply(problem, a, b)
    assert_passes(problem, a, b, c)
    own, zero = c.copy(), c.copy()
    own[4, 7], zero[:, 7] = c[5, 7], 0
    for wrong in (own, zero):
        assert_found(problem, a, b, wrong)


def test_products_that_underflow_hide_no_others_of_their_row() -> None:
    problem = Problem(160, 90, 600, "float64")  # too large for every element to be computed again
    rng = np.random.default_rng(10)
    a, b = operands(problem, rng)
    a, b = np.ldexp(a, -1060), np.ldexp(b, rng.integers(-1000, 250, (1, 90)))
    c = multiply(problem, a, b)
    assert_passes(problem, a, b, c)
    wrong = c.copy()
    wrong[4] = c[5]
    assert_found(problem, a, b, wrong)


def test_a_row_whose_large_element_meets_zeros_is_held_to_what_is_left() -> None:
    """A bias column, a time stamp: A[0, 0] is large, and B's row 0 is zero."""
    problem = Problem(70, 80, 500, "float32")
    a, b = operands(problem, np.random.default_rng(3))
    a[0, 1:] *= np.float32(2.0**-16)
    a[0, 0], b[0] = 1.0, 0.0
    c = multiply(problem, a, b)
    assert_passes(problem, a, b, c)
    c[0] *= np.float32(1.001)
    assert_found(problem, a, b, c)


@pytest.mark.parametrize(
    ("accuracy", "shape"), [("bf16", (60, 70, 4096)), ("bf16", (20, 20, 65_536)), ("tf32", (6, 8, 262_144))]
)
def test_reduced_classes_are_granted_what_independent_roundings_add_up_to(
    accuracy: AccuracyName, shape: tuple[int, int, int]
) -> None:
    problem = Problem(*shape, "float32")
    a, b = operands(problem, np.random.default_rng(4))
    c = multiply(problem, a, b)
    row, off = c.copy(), c.copy()
    row[3] = 0
    off[4] *= np.float32(1.2)
    assert_found(problem, a, b, row, accuracy)
    assert_found(problem, a, b, off, accuracy)


def test_one_overflow_hides_nothing_else() -> None:
    problem = Problem(40, 50, 100, "float16")
    a, b = operands(problem, np.random.default_rng(5))
    wide = as_float64(b, "float16")
    wide[:, 9] *= 30_000
    b = stored(wide, "float16")
    c = multiply(problem, a, b)
    assert np.isinf(c[:, 9]).any() and np.isfinite(np.delete(c, 9, axis=1)).all()
    assert_passes(problem, a, b, c)
    row = int(np.flatnonzero(np.isinf(c[:, 9]))[0])
    one, zero, sign = c.copy(), c.copy(), c.copy()
    one[row, np.argmax(np.abs(c[row, :9]))] *= np.float16(1.5)
    zero[row, :9] = 0
    sign[row, 9] *= -1
    for wrong in (one, zero, sign):
        assert_found(problem, a, b, wrong)


def test_terms_near_the_end_of_the_range_are_no_fault() -> None:
    """Terms near 1.8e308, of either sign: what overflows and what does not is right either way."""
    rng = np.random.default_rng(6)
    for number in range(200):
        n = int(rng.integers(2, 100))
        problem = Problem(n, n, n, "float64")
        a, b = (x * 2.0**511 * rng.uniform(0.5, 1.4) for x in operands(problem, rng))
        c = multiply(problem, a, b)
        assert checked(problem, a, b, c, rng).passed, number
        if np.isfinite(c).any():
            c[tuple(np.argwhere(np.isfinite(c))[0])] *= 1 + 1e-9
            assert not checked(problem, a, b, c, rng).passed, number


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_and_columns_in_any_units(dtype: DTypeName) -> None:
    """Each row of A and column of B has a unit of its own, over most of the exponent range."""
    rng, limit = np.random.default_rng(7), 50 if dtype == "float32" else 480
    for k in (30, 700):
        problem = Problem(60, 70, k, dtype)
        a, b = operands(problem, rng)
        a = np.ldexp(a, rng.integers(-limit, limit, (60, 1))).astype(a.dtype)
        b = np.ldexp(b, rng.integers(-limit, limit, (1, 70))).astype(b.dtype)
        c = multiply(problem, a, b)
        assert_passes(problem, a, b, c)
        for row, column in rng.integers(0, 60, (5, 2)):
            wrong = c.copy()
            wrong[row] = np.where(np.arange(70) == column, 0, c[row])
            assert not checked(problem, a, b, wrong, rng).passed


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_an_element_whose_square_overflows_grants_itself_nothing(
    dtype: DTypeName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.check.verify.MAX_DIRECT", 0)
    top = {"bfloat16": 14, "float32": 30, "float64": 62}[dtype]
    for k in (3, 600):
        problem = Problem(20, 30, k, dtype)
        a, b = operands(problem, np.random.default_rng(k), "uniform")
        c = multiply(problem, a, b)
        assert_passes(problem, a, b, c)
        for place in ((0, 0), (7, 11), (19, 29)):
            assert_found(problem, a, b, flipped(c, top, place))


@pytest.mark.parametrize("k", [1, 2, 8, 94])
def test_a_float64_element_just_beyond_its_bound_is_found_and_one_just_within_is_not(k: int) -> None:
    """Sums in float64 are off by a part of the bound themselves."""
    problem = Problem(12, 40, k, "float64")
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a, b = operands(problem, rng)
        truth = truth_of(problem, "fp64", a[np.newaxis], b[np.newaxis])
        at = 0, int(rng.integers(12)), int(rng.integers(40))
        step = np.spacing(np.abs(truth.value[at]).astype(np.float64))
        steps = int(truth.bound[at] / step)
        for count in (steps - 1, steps + 2):  # of units of the last place
            c = truth.value.astype(np.float64)
            c[at] += count * step
            is_wrong = truth.excess(c) > 1.0
            assert checked(problem, a, b, c[0], rng).passed is not is_wrong, (k, seed, count, truth.excess(c))
