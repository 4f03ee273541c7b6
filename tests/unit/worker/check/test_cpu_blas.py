"""`cpu_blas` against float64 and against Python's own integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.formats.elements import STORAGE_DTYPES
from kernels.model.numerics import DTYPE_NAMES, DTypeName, Problem
from tests.support.kernels.products import assert_right, in_float64, matrix, operands, stored
from worker.check.elements import as_float64, core
from worker.cpu import blas as cpu_blas
from worker.cpu.blas import multiply

SHAPES = ((1, 1, 1), (2, 3, 5), (31, 33, 32), (1, 300, 7), (300, 1, 7), (5, 7, 1), (64, 65, 257))


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_every_shape_and_transposition(dtype: DTypeName, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(m * n * k)
    for transpose_a in (False, True):
        for transpose_b in (False, True):
            problem = Problem(m, n, k, dtype, transpose_a=transpose_a, transpose_b=transpose_b)
            a, b = operands(problem, rng)
            assert_right(problem, a, b, multiply(problem, a, b))


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(("a_batched", "b_batched"), [(True, True), (True, False), (False, True)])
def test_batches(dtype: DTypeName, a_batched: bool, b_batched: bool) -> None:
    rng = np.random.default_rng(5)
    for transpose in (False, True):
        problem = Problem(
            6,
            5,
            4,
            dtype,
            batch=3,
            transpose_a=transpose,
            transpose_b=transpose,
            a_batched=a_batched,
            b_batched=b_batched,
        )
        a, b = operands(problem, rng)
        assert_right(problem, a, b, multiply(problem, a, b))


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_a_product_of_depth_0_is_zeros(dtype: DTypeName) -> None:
    problem = Problem(3, 4, 0, dtype)
    c = multiply(problem, *operands(problem, np.random.default_rng(0)))
    assert c.shape == (3, 4)
    assert not c.any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "int32", "float8_e4m3"])
def test_blocks_meet_at_every_edge(dtype: DTypeName, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BLOCK", "INT8_DEPTH", "INT32_DEPTH"):
        monkeypatch.setattr(cpu_blas, name, 8)
    rng = np.random.default_rng(1)
    for m, n, k in ((8, 8, 8), (9, 17, 7), (25, 3, 33)):
        problem = Problem(m, n, k, dtype, transpose_b=True)
        a, b = operands(problem, rng)
        assert_right(problem, a, b, multiply(problem, a, b))
    batched = Problem(2, 3, 4, dtype, batch=20, a_batched=True)
    a, b = operands(batched, rng)
    assert_right(batched, a, b, multiply(batched, a, b))


@pytest.mark.parametrize("value", [-(2**31), 2**31 - 1, -(2**15), 2**16, 46341])
def test_int32_wraps_at_its_limits(value: int) -> None:
    problem = Problem(2, 2, 100, "int32")
    a = np.full((2, 100), value, dtype=np.int32)
    b = np.full((100, 2), value, dtype=np.int32)
    assert_right(problem, a, b, multiply(problem, a, b))


def test_int8_sums_stay_exact_at_any_depth() -> None:
    problem = Problem(1, 1, 200_000, "int8")
    a = np.full((1, 200_000), -128, dtype=np.int8)
    assert_right(problem, a, a.T.copy(), multiply(problem, a, a.T.copy()))  # 3.3 · 10⁹ wraps once


@settings(max_examples=100, deadline=None)
@given(
    m=st.integers(1, 12),
    n=st.integers(1, 12),
    k=st.integers(0, 12),
    bits=st.integers(1, 31),
    seed=st.integers(0, 2**32),
)
def test_int32_of_any_magnitude(m: int, n: int, k: int, bits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = Problem(m, n, k, "int32")
    a = rng.integers(-(2**bits), 2**bits, size=(m, k)).astype(np.int32)
    b = rng.integers(-(2**31), 2**31, size=(k, n)).astype(np.int32)
    assert_right(problem, a, b, multiply(problem, a, b))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_floats_are_rounded_once(dtype: DTypeName) -> None:
    """Sums whose float32 value is exact: the product is the nearest 16-bit number to it."""
    rng = np.random.default_rng(3)
    problem = Problem(40, 40, 60, dtype)
    a, b = matrix((40, 60), dtype, rng, "integers"), matrix((60, 40), dtype, rng, "integers")
    true, _ = in_float64(problem, a, b)
    np.testing.assert_array_equal(multiply(problem, a, b), stored(true, dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_infinity_and_overflow_follow_ieee(dtype: DTypeName) -> None:
    rng = np.random.default_rng(4)
    problem = Problem(5, 6, 7, dtype)
    values_a, values_b = rng.standard_normal((5, 7)), rng.standard_normal((7, 6))
    values_a[0, 3], values_a[1, 2], values_b[4, 5], values_b[2, 0] = np.nan, np.inf, -np.inf, 0.0
    values_a[4], values_b[:, 1] = 6e4, 6e4
    a, b = stored(values_a, dtype), stored(values_b, dtype)
    true, _ = in_float64(problem, a, b)
    given = as_float64(multiply(problem, a, b), dtype)
    rounded = as_float64(stored(true, dtype), dtype)
    np.testing.assert_array_equal(np.isnan(given), np.isnan(rounded))
    np.testing.assert_array_equal(np.isposinf(given), np.isposinf(rounded))
    np.testing.assert_array_equal(np.isneginf(given), np.isneginf(rounded))
    assert np.isnan(given[1, 0]), "infinity times 0"
    assert np.isposinf(given[4, 1]) == (dtype == "float16")


def test_operands_are_not_copied_to_be_transposed() -> None:
    """The views handed to BLAS share the operands' memory."""
    stored_a = np.zeros((7, 5), STORAGE_DTYPES["float32"])
    assert np.shares_memory(core(stored_a, transposed=True), stored_a)
