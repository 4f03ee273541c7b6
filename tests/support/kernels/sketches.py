"""What the check's sketch on a GPU must come to, in numpy and from its definition (docs/decisions/0017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName, Problem
from tests.support.kernels.philox import random_factors, random_integers
from worker.check.elements import as_float64, core

Seed = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Expected:
    """`size` bounds the magnitudes of what the differences are sums of."""

    difference: Array  # (batch, m, groups), like the next three
    q: Array
    r: Array
    size: Array
    unit: Array  # (items, groups)
    row_exponents: Array  # (batch, m)
    bad_rows: Array  # (batch, m)
    bad_columns: Array  # (items of B, n)
    odd_columns: Array  # (batch, n)


def expected_sketch(
    problem: Problem, a: Array, b: Array, c: Array, width: int, floor2: float, seed: Seed, excluded: Array | None = None
) -> Expected:
    """Of stored matrices; `excluded` is (batch or 1, n)."""
    values = [as_float64(core(a, transposed=problem.transpose_a), problem.dtype)]
    values.append(as_float64(core(b, transposed=problem.transpose_b), problem.dtype))
    values.append(as_float64(core(c, transposed=False), problem.product_dtype))
    bad_rows = not_finite_along(values[0], 2)
    bad_columns = not_finite_along(values[1], 1) | _tiny(values[1], problem.product_dtype, floor2)
    mask = np.zeros((1, problem.n), bool) if excluded is None else excluded.astype(bool)
    out: Array = bad_columns | mask
    finite_c = np.isfinite(values[2])
    odd = (~finite_c & ~bad_rows[:, :, np.newaxis]).any(axis=1) & ~out
    of_a, of_b, of_c = (np.where(np.isfinite(each), each, 0.0) for each in values)
    column_exponents = np.where(bad_columns, 0, _column_exponents(of_b, problem.dtype))
    row_exponents = _exponents(np.abs(of_a).max(axis=2, initial=0.0), problem.dtype)
    of_a = np.ldexp(of_a, -row_exponents[:, :, np.newaxis])
    of_b = np.ldexp(of_b, -column_exponents[:, np.newaxis, :])
    of_c = _scaled(of_c, -(row_exponents[:, :, np.newaxis] + column_exponents[:, np.newaxis, :]))
    x = np.where(out[:, :, np.newaxis], 0.0, random_factors(len(out), problem.n, seed))
    w = np.where(out | (of_b == 0.0).all(axis=1), 0.0, 7 / 3)
    scaled = _Scaled(of_a, of_b, of_c, x, w, row_exponents, column_exponents, floor2)
    found = [scaled.group(slice(begin, begin + width)) for begin in range(0, problem.n, width)]
    difference, q, r, size, unit = (np.stack(each, axis=-1) for each in zip(*found, strict=True))
    shape = (problem.batch, problem.m)
    difference, q, r, size = (np.broadcast_to(each, (*shape, each.shape[-1])) for each in (difference, q, r, size))
    exponents, flags = np.broadcast_to(row_exponents, shape), np.broadcast_to(bad_rows, shape)
    columns = np.broadcast_to(odd, (problem.batch, problem.n))
    return Expected(difference, q, r, size, unit, exponents, flags, bad_columns, columns)


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Matrices in the units of their rows and columns, and the vectors."""

    a: Array
    b: Array
    c: Array
    x: Array
    w: Array
    row_exponents: Array
    column_exponents: Array
    floor2: float

    def group(self, at: slice) -> tuple[Array, Array, Array, Array, Array]:
        """Difference, Q, R and size of a group's columns, and its unit."""
        b, c, x, w, exponents = self.b[:, :, at], self.c[:, :, at], self.x[:, at], self.w[:, at], self.column_exponents
        y = b @ x
        floor = (w * _floor(self.floor2, exponents[:, at])).sum(axis=1)
        z = (np.square(b) * w[:, np.newaxis]).sum(axis=2) + floor[:, np.newaxis]
        p, s = self.a @ y, c @ x
        floor_a = _floor(self.floor2, self.row_exponents)[:, :, np.newaxis]
        size = np.abs(self.a) @ (np.abs(b) @ np.abs(x)) + np.abs(c) @ np.abs(x)
        unit = np.sqrt((w * np.ldexp(1.0, -2 * np.maximum(exponents[:, at], -500))).sum(axis=1))
        q = ((np.square(self.a) + floor_a) @ z[:, :, np.newaxis])[..., 0]
        with np.errstate(over="ignore"):  # of an element of C so wrong that its square is infinite
            r = (np.square(c) * w[:, np.newaxis]).sum(axis=2)
        return np.abs(s - p).max(axis=2), q, r, size.max(axis=2), np.broadcast_to(unit, len(x))


def not_finite_along(values: Array, axis: int) -> Array:
    """Where some element along the axis is NaN or infinite."""
    return np.asarray((~np.isfinite(values)).any(axis=axis))


def _floor(floor2: float, exponents: Array) -> Array:
    """In the units of a row or column."""
    return np.zeros(exponents.shape) if floor2 == 0.0 else np.ldexp(floor2, -2 * exponents)


def _scaled(values: Array, exponents: Array) -> Array:
    with np.errstate(over="ignore"):
        scaled: Array = np.ldexp(values, exponents)
    return scaled


def _column_exponents(of_b: Array, dtype: DTypeName) -> Array:
    """Of norms, but for float64 of the largest magnitudes; the least that there may be for columns of zeros."""
    if dtype == "float64":
        exponents = _exponents(np.abs(of_b).max(axis=1, initial=0.0), dtype)
    else:
        exponents = np.clip(np.frexp(np.sqrt(np.square(of_b).sum(axis=1)))[1], -500, 500)
    return np.where((of_b == 0.0).all(axis=1), -1073 if dtype == "float64" else -148, exponents)


def _tiny(of_b: Array, product: DTypeName, floor2: float) -> Array:
    """Columns other than zeros whose norm is below the normal numbers of the product's type, or whose elements are
    below the floor in the mean square; none for float64."""
    if product == "float64":
        return np.zeros((len(of_b), of_b.shape[2]), bool)
    least = 2.0**-14 if product == "float16" else 2.0**-126
    squares = np.square(of_b).sum(axis=1)
    return np.asarray((squares > 0.0) & (squares < max(least**2, floor2 * of_b.shape[1])))


def _exponents(magnitudes: Array, dtype: DTypeName) -> Array:
    return np.frexp(magnitudes)[1] if dtype == "float64" else np.zeros(magnitudes.shape, np.int32)


def wrong_rows(problem: Problem, a: Array, b: Array, c: Array, seed: Seed, *, wraps: bool) -> Array:
    """Integers: bool (batch, m), where projections on random words differ modulo 2⁶⁴, or 2³²."""
    of_a, of_b = core(a, transposed=problem.transpose_a), core(b, transposed=problem.transpose_b)
    words = [each.astype(np.int64).view(np.uint64) for each in (of_a, of_b, core(c, transposed=False))]
    x = random_integers(len(words[1]), problem.n, seed)
    difference = words[2] @ x - words[0] @ (words[1] @ x)
    if wraps:
        difference = difference.astype(np.uint32)
    found: Array = (difference != 0).any(axis=2)
    return found


def assert_sketch(found: dict[str, Array], expected: Expected) -> None:
    """`found` has the device's arrays by their names; sums there are in another order."""
    assert np.all(np.abs(found["difference"] - expected.difference) <= 1e-13 * expected.size)
    np.testing.assert_allclose(found["q"], expected.q, rtol=1e-12)
    np.testing.assert_allclose(found["r"], expected.r, rtol=1e-12)
    np.testing.assert_allclose(np.sqrt(found["unit"]), expected.unit, rtol=1e-12)
    if found["row_peaks"].size:
        exponents = np.frexp(found["row_peaks"].view(np.float64))[1]
        np.testing.assert_array_equal(np.broadcast_to(exponents, expected.row_exponents.shape), expected.row_exponents)
    np.testing.assert_array_equal(found["bad_rows"] != 0, expected.bad_rows)
    np.testing.assert_array_equal(found["bad_columns"] != 0, expected.bad_columns)
    np.testing.assert_array_equal(found["odd_columns"] != 0, expected.odd_columns)
