"""Grouped products on the CPU, and their check: each row belongs to the matrix of its own group."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.support.grouped.operands import grouped_operands, grouped_problem, true_product
from tests.support.kernels.products import stored
from worker.check.grouped import GroupedProduct, PartOf
from worker.check.host_matrix import HostMatrix
from worker.check.verify import check
from worker.cpu.grouped import multiply_grouped
from worker.cpu.kernels import CPU_KERNELS
from worker.device.operands import HostOperand
from worker.device.runner import operands_as_checked

SMALL, LARGE = ((3, 0, 5, 1), 7, 20), ((0, 300, 200, 0), 300, 200)  # computed again as a whole, and sketched
DTYPES_OF_CPU: tuple[DTypeName, ...] = ("float32", "float64", "bfloat16", "int8", "float8_e4m3", "complex64")


def passes(problem: Problem, a: Array, b: Array, c: Array) -> bool:
    matrices = operands_as_checked(problem, HostOperand(a), HostOperand(b), c)
    assert isinstance(matrices, GroupedProduct)
    accuracy = "fp32" if problem.dtype == "float8_e4m3" else DTYPES[problem.dtype].accuracy
    return bool(check(problem, accuracy, matrices, np.random.default_rng(9)).passed)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES_OF_CPU)
def test_each_row_has_its_own_matrix(dtype: DTypeName, transposed: bool) -> None:
    """Whole numbers come out to the last bit, in new memory and in a place; any numbers pass the check."""
    problem = grouped_problem(*SMALL, dtype, transpose_b=transposed)
    a, b = grouped_operands(problem, np.random.default_rng(3), "integers")
    if DTYPES[dtype].is_complex:
        a.imag, b.imag = 0, 0
    place = np.empty(problem.product_shape, multiply_grouped(CPU_KERNELS["cpu_blas"], problem, a, b).dtype)
    c = multiply_grouped(CPU_KERNELS["cpu_blas"], problem, a, b, place)
    assert c is place
    expected = true_product(
        problem, a.real if DTYPES[dtype].is_complex else a, b.real if DTYPES[dtype].is_complex else b
    )
    np.testing.assert_array_equal(c, stored(expected, problem.product_dtype))
    for size in (SMALL, LARGE):
        problem = grouped_problem(*size, dtype, transpose_b=transposed)
        a, b = grouped_operands(problem, np.random.default_rng(4))
        assert passes(problem, a, b, multiply_grouped(CPU_KERNELS["cpu_blas"], problem, a, b))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "complex64"])
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_a_row_times_the_neighbours_matrix_is_found(dtype: DTypeName, size: tuple[tuple[int, ...], int, int]) -> None:
    """The groups that are multiplied end one row earlier, or later."""
    problem = grouped_problem(*size, dtype)
    a, b = grouped_operands(problem, np.random.default_rng(5))
    for off in (-1, 1):
        sizes = [*problem.group_sizes]
        first, second = (index for index, rows in enumerate(sizes) if rows > 1)
        sizes[first], sizes[second] = sizes[first] + off, sizes[second] - off
        moved = grouped_problem(sizes, problem.n, problem.k, dtype)
        assert not passes(problem, a, b, multiply_grouped(CPU_KERNELS["cpu_blas"], moved, a, b)), off


def test_a_wrong_element_of_any_group_is_found() -> None:
    problem = grouped_problem(*SMALL)
    a, b = grouped_operands(problem, np.random.default_rng(6))
    right = multiply_grouped(CPU_KERNELS["cpu_blas"], problem, a, b)
    for row in range(problem.m):
        c = right.copy()
        c[row, 3] += 0.01
        assert not passes(problem, a, b, c), row


def test_not_finite_rows_do_not_hide_a_neighbours_fault() -> None:
    problem = grouped_problem((4, 4), 6, 10)
    a, b = grouped_operands(problem, np.random.default_rng(7))
    a[1, 2], b[1, 3, 4] = np.inf, np.nan
    c = multiply_grouped(CPU_KERNELS["cpu_blas"], problem, a, b)
    assert passes(problem, a, b, c)
    for row, column in ((0, 0), (4, 0), (4, 4)):
        wrong = c.copy()
        wrong[row, column] = 1e6
        assert not passes(problem, a, b, wrong), (row, column)


def test_a_part_is_opened_where_its_elements_are_asked_for() -> None:
    class Opened(HostMatrix):
        @property
        def array(self) -> Array:
            opened.append(True)
            return self._array

    opened: list[bool] = []
    whole = Opened(np.arange(24.0).reshape(2, 4, 3), "float64")
    part = PartOf(whole, slice(1, 2), slice(2, 4))
    assert part.shape == (1, 2, 3) and not opened
    np.testing.assert_array_equal(part.array, [[[18, 19, 20], [21, 22, 23]]])
    assert opened
