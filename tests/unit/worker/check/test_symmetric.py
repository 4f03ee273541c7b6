"""Symmetric products on the CPU: one triangle by BLAS, mirrored by numpy; and the check of both triangles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG
from kernels.model.numerics import DTYPE_NAMES, DTYPES, DTypeName, Problem
from kernels.selection.triangles import computes_triangle
from tests.support.kernels.checks import checked
from tests.support.kernels.products import assert_right, matrix
from worker.cpu.blas import multiply

N, K = 150, 70
REAL = [name for name in DTYPE_NAMES if not DTYPES[name].is_complex]


def problem_of(dtype: DTypeName, *, by_columns: bool = False) -> Problem:
    return Problem(N, N, K, dtype, transpose_a=by_columns, transpose_b=not by_columns, symmetric=True)


def operand(dtype: DTypeName, *, by_columns: bool = False) -> Array:
    return matrix((K, N) if by_columns else (N, K), dtype, np.random.default_rng(3))


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("by_columns", [False, True])
def test_products_are_right_and_symmetric(dtype: DTypeName, by_columns: bool) -> None:
    problem, x = problem_of(dtype, by_columns=by_columns), operand(dtype, by_columns=by_columns)
    c = multiply(problem, x, x.copy())
    assert_right(problem, x, x, c)
    if computes_triangle(BY_NAME["cpu_blas"], NO_CONFIG, problem):
        np.testing.assert_array_equal(c, c.T)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blas_is_given_one_matrix(dtype: DTypeName, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two copies numpy would ask it for all of the product."""
    seen: list[bool] = []

    def matmul(a: Array, b: Array, out: Array) -> None:
        seen.append(a.__array_interface__["data"] == b.__array_interface__["data"] and a.strides == b.mT.strides)

    monkeypatch.setattr(np, "matmul", matmul)
    x = operand(dtype)
    multiply(problem_of(dtype), x, x.copy())
    assert seen == [True]
    assert computes_triangle(BY_NAME["cpu_blas"], NO_CONFIG, problem_of(dtype))


def one_element(c: Array) -> None:
    c[3, N - 4] += 1


def the_other_triangle(c: Array) -> None:
    c[np.triu_indices(N, 1)] = 0


def a_tile_from_its_neighbour(c: Array) -> None:
    c[:64, 64:128] = c[:64, 65:129].copy()


def a_tile_that_was_not_turned(c: Array) -> None:
    c[:64, 64:128] = c[64:128, :64].copy()


@pytest.mark.parametrize(
    "fault", [one_element, the_other_triangle, a_tile_from_its_neighbour, a_tile_that_was_not_turned]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8"])
def test_faults_in_the_mirrored_half_are_found(dtype: DTypeName, fault: Callable[[Array], None]) -> None:
    problem, x = problem_of(dtype), matrix((N, K), dtype, np.random.default_rng(3), "integers")
    c = np.array(multiply(problem, x, x))
    assert checked(problem, x, x, c, np.random.default_rng(1)).passed
    fault(c)
    for seed in range(4):
        assert not checked(problem, x, x, c, np.random.default_rng(seed)).passed
