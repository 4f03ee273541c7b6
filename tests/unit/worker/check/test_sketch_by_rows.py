"""Projections of many rows are made in pieces; each piece must be where the rows are."""

from __future__ import annotations

import numpy as np
import pytest

from worker.check.host_matrix import AS_STORED, BLOCK_ELEMENTS, HostMatrix, widened_blocks
from worker.check.sketch import ROWS, RUN, grouped, in_runs, in_whole


@pytest.mark.parametrize("rows", [1, ROWS - 1, ROWS, 3 * ROWS, 3 * ROWS + 1])
@pytest.mark.parametrize("columns", [1, RUN, 2 * RUN + 5])
@pytest.mark.parametrize("transposed", [False, True])
def test_projections_are_the_products(rows: int, columns: int, transposed: bool) -> None:
    rng = np.random.default_rng(rows + columns)
    values = rng.standard_normal((2, columns, rows)).swapaxes(1, 2) if transposed else rng.random((2, rows, columns))
    vectors = rng.standard_normal((2, columns, 8))
    expected = values @ vectors
    np.testing.assert_allclose(in_whole(values, vectors), expected, atol=1e-11)
    np.testing.assert_allclose(in_runs(values, vectors, RUN).sum(axis=-3), expected, atol=1e-11)
    np.testing.assert_allclose(grouped(values, vectors, RUN).sum(axis=-2), expected, atol=1e-11)
    np.testing.assert_allclose(grouped(values, vectors[:1], 2 * RUN).sum(axis=-2), values @ vectors[:1], atol=1e-11)


def test_sums_over_runs_are_in_float64() -> None:
    """2^24 + 1 is no float32: a run's sum is, and the sum over runs must not be rounded to one."""
    values = np.zeros((1, 2 * ROWS, 2 * RUN), np.float32)
    values[0, :, 0], values[0, :, RUN] = 2.0**24, 1.0
    ones = np.ones((1, 2 * RUN, 1), np.float32)
    exact = np.float64(2**24 + 1)
    assert (in_whole(values, ones) == exact).all()
    assert (grouped(values, ones, 2 * RUN) == exact).all()


def test_elements_that_are_read_as_they_lie_come_in_larger_blocks() -> None:
    columns = 64
    matrix = HostMatrix(np.zeros((1, 2 * AS_STORED * BLOCK_ELEMENTS // columns, columns), np.float32), "float32")
    assert [values.size for _, values in widened_blocks(matrix, np.float32)] == [AS_STORED * BLOCK_ELEMENTS] * 2
    assert {values.size for _, values in widened_blocks(matrix, np.float64)} == {BLOCK_ELEMENTS}, "with a wider copy"
