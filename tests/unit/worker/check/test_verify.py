"""The check of products: no clean one is refused, and no flipped bit that matters gets through. Seeds are fixed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPE_NAMES, DTypeName, Problem
from tests.support.kernels.checks import checked, flipped
from tests.support.kernels.products import FLOAT_DATA, Data, matrix, operands, stored
from worker.check.elements import as_float64
from worker.check.rounding import rounding_of
from worker.cpu.blas import multiply

FLOATS: tuple[DTypeName, ...] = ("float16", "bfloat16", "float32", "float64")


def detected(problem: Problem, data: Data, bit: int, trials: int, seed: int) -> int:
    """How many of so many flips of that bit, in elements drawn at random, the check finds."""
    rng = np.random.default_rng(seed)
    a, b = operands(problem, rng, data)
    c = multiply(problem, a, b)
    places = [(int(rng.integers(problem.m)), int(rng.integers(problem.n))) for _ in range(trials)]
    return sum(not checked(problem, a, b, flipped(c, bit, place), rng).passed for place in places)


# ---- no false alarms ----
@settings(max_examples=300, deadline=None)
@given(
    dtype=st.sampled_from(DTYPE_NAMES),
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(0, 300)),
    data=st.sampled_from(FLOAT_DATA),
    transposes=st.tuples(st.booleans(), st.booleans()),
    batched=st.tuples(st.booleans(), st.booleans()),
    seed=st.integers(0, 2**32),
)
def test_clean_products_pass(
    dtype: DTypeName,
    sizes: tuple[int, int, int],
    data: Data,
    transposes: tuple[bool, bool],
    batched: tuple[bool, bool],
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    m, n, k = sizes
    batch = 3 if any(batched) else 1
    problem = Problem(m, n, k, dtype, batch, *transposes, *batched)
    a, b = operands(problem, rng, data)
    assert checked(problem, a, b, multiply(problem, a, b), rng).passed


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_many_clean_products_pass(dtype: DTypeName) -> None:
    """Sizes over several orders of magnitude, operands of different data, 500 of each type."""
    rng = np.random.default_rng(17)
    for _ in range(500):
        m, n, k = (int(2 ** rng.uniform(0, 7)) for _ in range(3))
        if rng.random() < 0.1:
            m, n, k = 3, 4, 8192
        elif rng.random() < 0.1:
            m, n, k = 4, 8192, 3
        problem = Problem(m, n, k, dtype)
        data_a, data_b = (FLOAT_DATA[rng.integers(len(FLOAT_DATA))] for _ in range(2))
        a, b = matrix((m, k), dtype, rng, data_a), matrix((k, n), dtype, rng, data_b)
        found = checked(problem, a, b, multiply(problem, a, b), rng)
        assert found.passed, (problem, data_a, data_b, found)


@pytest.mark.parametrize("data", ["constant", "ramp", "uniform"])
@pytest.mark.parametrize("k", [1, 1000, 20_000])
def test_sums_in_order_pass_though_they_drift(data: Data, k: int) -> None:
    """A kernel that adds term after term in float32 drifts where the terms are alike; that is rounding, not a fault."""
    rng = np.random.default_rng(2)
    problem = Problem(3, 5, k, "float32")
    a, b = operands(problem, rng, data)
    c = np.zeros((3, 5), np.float32)
    for step in range(k):
        c += a[:, step : step + 1] * b[step : step + 1]
    assert checked(problem, a, b, c, rng).passed


def test_accumulators_that_truncate_pass_for_16_bit_types() -> None:
    """As tensor cores do: each partial sum of 16 terms is cut, never rounded up."""
    rng = np.random.default_rng(3)
    problem = Problem(20, 30, 8192, "float16")
    a, b = operands(problem, rng, "uniform")
    total = np.zeros((20, 30), np.float32)
    for step in range(0, problem.k, 16):
        part = as_float64(a[:, step : step + 16], "float16") @ as_float64(b[step : step + 16], "float16")
        total = (total + part).astype(np.float64).view(np.uint64) & ~np.uint64((1 << 29) - 1)
        total = total.view(np.float64).astype(np.float32)
    assert checked(problem, a, b, stored(total, "float16"), rng).passed


def test_a_lower_class_is_granted_more() -> None:
    """float32 operands cut to 11 bits pass as tf32, and not as fp32."""
    rng = np.random.default_rng(4)
    problem = Problem(100, 100, 100, "float32")
    a, b = operands(problem, rng)
    cut = [(x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b)]
    c = multiply(problem, *cut)
    assert checked(problem, a, b, c, rng, "tf32").passed
    assert not checked(problem, a, b, c, rng, "fp32").passed


@pytest.mark.parametrize("exponent", [-500, 400, 505])
def test_float64_of_any_magnitude(exponent: int) -> None:
    """Squares of such elements leave float64's range, and some of their products do."""
    rng = np.random.default_rng(5)
    problem = Problem(30, 20, 40, "float64")
    a, b = (np.ldexp(x, exponent) for x in operands(problem, rng))
    c = multiply(problem, a, b)
    assert checked(problem, a, b, c, rng).passed
    c[tuple(np.argwhere(np.isfinite(c))[0])] *= 1.001
    assert not checked(problem, a, b, c, rng).passed


# ---- faults are found ----
@pytest.mark.parametrize("data", ["normal", "uniform"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_flipped_exponent_bit_is_found(dtype: DTypeName, data: Data) -> None:
    first, last = (23, 30) if dtype == "float32" else (52, 62)
    problem = Problem(64, 96, 128, dtype)
    assert [detected(problem, data, bit, 20, bit) for bit in range(first, last + 1)] == [20] * (last + 1 - first)


@pytest.mark.parametrize(("bit", "least"), [(22, 100), (20, 98), (18, 95)])
def test_flipped_mantissa_bits_of_float32_are_found(bit: int, least: int) -> None:
    assert detected(Problem(200, 200, 200, "float32"), "normal", bit, 100, seed=bit) >= least


@pytest.mark.parametrize("dtype", ["int8", "int32"])
@pytest.mark.parametrize("bit", [0, 7, 16, 31])
def test_every_flipped_bit_of_an_integer_is_found(dtype: DTypeName, bit: int) -> None:
    assert detected(Problem(40, 50, 60, dtype), "integers", bit, 30, seed=bit) == 30


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("data", ["normal", "uniform", "constant", "wide"])
def test_a_block_of_zeros_is_found(dtype: DTypeName, data: Data) -> None:
    """As a kernel leaves it that does not reach the last rows and columns."""
    rng = np.random.default_rng(6)
    problem = Problem(50, 60, 70, dtype)
    a, b = operands(problem, rng, data)
    c = multiply(problem, a, b)
    c[32:, 32:] = 0
    assert not checked(problem, a, b, c, rng).passed


def wrong_item(c: Array) -> None:
    c[1], c[2] = c[2].copy(), c[1].copy()


def wrong_element(c: Array) -> None:
    c[2, 3, 4] += 1


@pytest.mark.parametrize("spoil", [wrong_item, wrong_element])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("batched", [(True, False), (False, True), (True, True)])
def test_faults_in_a_batch_are_found(
    spoil: Callable[[Array], None], dtype: DTypeName, batched: tuple[bool, bool]
) -> None:
    rng = np.random.default_rng(7)
    problem = Problem(10, 11, 12, dtype, 4, False, True, *batched)
    a, b = operands(problem, rng)
    c = multiply(problem, a, b)
    spoil(c)
    assert not checked(problem, a, b, c, rng).passed


def test_a_fault_is_found_where_the_whole_product_drifts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row passes the threshold and is explained; one wrong element still is not."""
    rng = np.random.default_rng(8)
    problem = Problem(8, 9, 20_000, "float32")
    a, b = operands(problem, rng, "constant")
    c = np.zeros((8, 9), np.float32)
    for step in range(problem.k):
        c += a[:, step : step + 1] * b[step : step + 1]
    true = as_float64(a, "float32") @ as_float64(b, "float32")
    assert np.all(np.abs(c - true) > 4 * np.sqrt(problem.k) * 2.0**-24 * true), "this data is meant to drift"
    assert checked(problem, a, b, c, rng).passed
    c[5, 5] *= np.float32(1.1)
    assert not checked(problem, a, b, c, rng).passed


def test_a_product_of_depth_0_must_be_zeros() -> None:
    problem = Problem(4, 5, 0, "float32")
    rng = np.random.default_rng(9)
    a, b = operands(problem, rng)
    c = np.zeros((4, 5), np.float32)
    assert checked(problem, a, b, c, rng).residual == 0.0
    c[1, 1] = 1e-6
    assert not checked(problem, a, b, c, rng).passed


# ---- its parts ----
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_passes_over_blocks_are_passes_over_the_whole(dtype: DTypeName, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, columns and batch are cut into blocks; small ones here, so that every cut is met."""
    rng = np.random.default_rng(18)
    problem = Problem(13, 170, 9, dtype, batch=3, transpose_b=True, a_batched=True)
    a, b = operands(problem, rng)
    c = multiply(problem, a, b)
    monkeypatch.setattr("worker.check.host_matrix.BLOCK_ELEMENTS", 64)
    monkeypatch.setattr("worker.check.block.BLOCK", 64)
    monkeypatch.setattr("worker.check.verify.MAX_DIRECT", 0)
    assert checked(problem, a, b, c, rng).passed
    c[2, 12, 169] = 7
    assert not checked(problem, a, b, c, rng).passed


def test_the_threshold_depends_on_type_and_depth_alone() -> None:
    rng = np.random.default_rng(19)
    for data in ("normal", "tiny", "uniform"):
        problem = Problem(9, 8, 7, "float32")
        a, b = operands(problem, rng, data)
        found = checked(problem, a, b, multiply(problem, a, b), rng)
        assert found.threshold == rounding_of(problem, "fp32").threshold


def test_operands_are_left_as_they_are() -> None:
    rng = np.random.default_rng(20)
    problem = Problem(12, 14, 16, "float32")
    a, b = operands(problem, rng)
    a[3, 4] = np.nan
    c = multiply(problem, a, b)
    before = [x.copy() for x in (a, b, c)]
    checked(problem, a, b, c, rng)
    for now, then in zip((a, b, c), before, strict=True):
        np.testing.assert_array_equal(now, then)
