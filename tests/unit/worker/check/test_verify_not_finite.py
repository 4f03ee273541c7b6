"""The check of products that hold NaN or infinity, or whose values are too large for their type."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.support.kernels.checks import checked
from tests.support.kernels.products import stored
from worker.check.elements import as_float64
from worker.cpu.blas import multiply

FLOATS: tuple[DTypeName, ...] = ("float16", "bfloat16", "float32", "float64")


def not_finite(dtype: DTypeName) -> tuple[Problem, Array, Array, Array]:
    rng = np.random.default_rng(10)
    problem = Problem(12, 14, 16, dtype, batch=2, a_batched=True)
    values_a, values_b = rng.standard_normal((2, 12, 16)), rng.standard_normal((16, 14))
    values_a[0, 3, 4], values_a[1, 5, 6], values_b[7, 8], values_b[9, 10] = np.nan, np.inf, -np.inf, np.nan
    a, b = stored(values_a, dtype), stored(values_b, dtype)
    return problem, a, b, multiply(problem, a, b)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinity_pass_where_ieee_puts_them(dtype: DTypeName) -> None:
    problem, a, b, c = not_finite(dtype)
    assert checked(problem, a, b, c, np.random.default_rng(11)).passed


@pytest.mark.parametrize("place", [(0, 3, 0), (1, 5, 13), (0, 0, 8), (1, 11, 10)])
def test_a_finite_element_where_nan_or_infinity_goes_is_found(place: tuple[int, int, int]) -> None:
    problem, a, b, c = not_finite("float32")
    c[place] = 0.5
    assert not checked(problem, a, b, c, np.random.default_rng(12)).passed


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_or_infinity_out_of_nothing_is_found(dtype: DTypeName, value: float) -> None:
    problem, a, b, c = not_finite(dtype)
    c[1, 7, 2] = stored(np.array(value), dtype)
    assert not checked(problem, a, b, c, np.random.default_rng(13)).passed


def test_infinity_of_the_wrong_sign_is_found() -> None:
    problem, a, b, c = not_finite("float32")
    c[:, :, 8] *= -1
    assert not checked(problem, a, b, c, np.random.default_rng(14)).passed


def test_a_wrong_element_beside_nan_is_found() -> None:
    problem, a, b, c = not_finite("float32")
    c[1, 7, 2] *= 1.5
    assert not checked(problem, a, b, c, np.random.default_rng(15)).passed


@pytest.mark.parametrize("dtype", FLOATS)
def test_overflow_passes_where_the_value_is_too_large_and_nowhere_else(dtype: DTypeName) -> None:
    rng = np.random.default_rng(16)
    problem = Problem(20, 24, 28, dtype)
    large = np.sqrt(DTYPES[dtype].largest) / 2
    values_a, values_b = rng.standard_normal((20, 28)), rng.standard_normal((28, 24))
    values_a[4], values_b[:, 6] = large, -large
    values_a[9] = -large
    a, b = stored(values_a, dtype), stored(values_b, dtype)
    c = multiply(problem, a, b)
    assert np.isneginf(as_float64(c, dtype)[4, 6])
    assert checked(problem, a, b, c, rng).passed
    wrong = c.copy()
    wrong[4, 6] = c[9, 6]  # the other infinity
    assert not checked(problem, a, b, wrong, rng).passed


LARGEST = DTYPES["float64"].largest


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ((1e308, -0.00923279663524803, 0.1), (0.0016391726483014262, 1e308, 7.0)),
        ((-(2.0**-1074), -(2.0**-1074), -1.0), (LARGEST, -1.0, 2.0**-52)),
        ((LARGEST, 0.0, 1.0), (0.0, LARGEST, 1 / 3)),
    ],
)
def test_small_elements_beside_the_largest_numbers_pass_if_right(
    row: tuple[float, ...], column: tuple[float, ...]
) -> None:
    a, b = np.array([row]), np.array([column]).T
    problem = Problem(1, 1, 3, "float64")
    c, rng = multiply(problem, a, b), np.random.default_rng(17)
    assert checked(problem, a, b, c, rng).passed
    assert not checked(problem, a, b, c * (1.0 + 2.0**-40), rng).passed


def test_infinity_times_a_number_far_below_its_row_passes() -> None:
    a, b = np.array([[1e-300, 1e200, 1.0]]), np.array([[-np.inf], [1e-190], [2.0]])
    problem = Problem(1, 1, 3, "float64")
    c, rng = multiply(problem, a, b), np.random.default_rng(19)
    assert np.isneginf(c).all() and checked(problem, a, b, c, rng).passed
    assert not checked(problem, a, b, -c, rng).passed
