"""What the direct check of a product's elements must come to, in numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import Problem
from tests.support.kernels.sketches import not_finite_along
from worker.check.elements import as_float64, core


@dataclass(frozen=True, slots=True)
class ExpectedDirect:
    """`slack` is how far the ratios may be off: float64 sums in another order round otherwise. Sums of float64 elements
    are made in long double here, and with a compensation there."""

    worst: Array  # (batch, m)
    slack: Array
    bad_rows: Array
    bad_columns: Array
    odd_columns: Array


def expected_direct(
    problem: Problem, a: Array, b: Array, c: Array, grants: tuple[float, float, float, float]
) -> ExpectedDirect:
    """Of stored matrices; `grants` are alpha, beta, gamma and delta."""
    of_a = as_float64(core(a, transposed=problem.transpose_a), problem.dtype)
    of_b = as_float64(core(b, transposed=problem.transpose_b), problem.dtype)
    of_c = as_float64(core(c, transposed=False), problem.product_dtype)
    bad_rows, bad_columns = not_finite_along(of_a, 2), not_finite_along(of_b, 1)
    judged = ~(bad_rows[:, :, np.newaxis] | bad_columns[:, np.newaxis, :])
    is_wide = problem.dtype == "float64"
    wide, rounded = (np.longdouble, 1e-18) if is_wide else (np.float64, 1e-14)
    of_a, of_b = (np.where(np.isfinite(each), each, 0.0).astype(wide) for each in (of_a, of_b))
    with np.errstate(all="ignore"):
        sums = np.matmul(of_a, of_b)
        sizes, squares = np.matmul(np.abs(of_a), np.abs(of_b)), np.matmul(np.square(of_a), np.square(of_b))
        if is_wide:  # beyond the range of float64 is infinite
            sums, sizes, squares = (np.where(x > np.finfo(np.float64).max, np.inf, x) for x in (sums, sizes, squares))
        roots = np.sqrt(squares)
        roots = np.where(np.isfinite(roots), roots, 0.0)
        granted = grants[0] * sizes + grants[1] * roots + grants[2] * np.abs(sums) + grants[3]
        errors = np.abs(of_c - sums)
        known = np.isfinite(granted) & (granted > 0) & np.isfinite(errors)
        ratios = np.where(errors == 0.0, 0.0, np.where(known, errors / granted, np.inf))
        slack = np.where(known, rounded * sizes / granted, 0.0)
    finite = np.isfinite(of_c)
    ratios = np.where(judged & finite, ratios, 0.0)
    odd = np.asarray((judged & ~finite).any(axis=1))
    return ExpectedDirect(ratios.max(axis=2), slack.max(axis=2), bad_rows, bad_columns, odd)


def assert_direct(worst: Array, flags: tuple[Array, Array, Array], expected: ExpectedDirect) -> None:
    """`flags` are bad rows, bad columns and odd columns, as truth values."""
    infinite = np.isinf(expected.worst)
    np.testing.assert_array_equal(np.isinf(worst), infinite)
    near = np.abs(np.where(infinite, 0.0, worst) - np.where(infinite, 0.0, expected.worst))
    assert np.all(near <= expected.slack + 1e-12 * np.where(infinite, 0.0, expected.worst))
    np.testing.assert_array_equal(flags[0], np.broadcast_to(expected.bad_rows, flags[0].shape))
    np.testing.assert_array_equal(flags[1], expected.bad_columns)
    np.testing.assert_array_equal(flags[2], np.broadcast_to(expected.odd_columns, flags[2].shape))
