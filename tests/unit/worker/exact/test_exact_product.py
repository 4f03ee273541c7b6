"""`cpu_exact`: every element is the exact sum, rounded once, whatever the blocks, passes and threads."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from jobs.formats import float8
from jobs.formats.bfloat16 import narrow, widen
from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName, Problem
from tests.support.bounds.operand_data import operand_pairs
from tests.support.exact import correctly_rounded
from worker.cpu.exact import product as exact_product
from worker.cpu.exact import slices
from worker.cpu.exact.product import multiply_exactly

M, N = 5, 4
FLOATS = ("float32", "float64")
assert {*FLOATS} < {*get_args(DTypeName)}


def bits(values: Array) -> bytes:
    return np.ascontiguousarray(values).tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("k", [2, 16, 60])
def test_floats_are_rounded_once(dtype: DTypeName, k: int) -> None:
    for name, a, b in operand_pairs(M, k, N, dtype, np.random.default_rng(k)):
        with np.errstate(all="ignore"):
            a, b = a.astype(dtype), b.astype(dtype)
        if np.isfinite(a).all() and np.isfinite(b).all():
            got = multiply_exactly(Problem(M, N, k, dtype), a, b)
            assert bits(got) == bits(correctly_rounded(a, b, dtype)), name


def test_shorter_floats_are_rounded_once() -> None:
    rng = np.random.default_rng(3)
    a, b = (np.ldexp(rng.standard_normal(shape), rng.integers(-9, 5, shape)) for shape in ((M, 40), (40, N)))
    half = a.astype(np.float16), b.astype(np.float16)
    got = multiply_exactly(Problem(M, N, 40, "float16"), *half)
    assert bits(got) == bits(correctly_rounded(*half, "float16"))
    brain = narrow(a.astype(np.float32)), narrow(b.astype(np.float32))
    got = multiply_exactly(Problem(M, N, 40, "bfloat16"), *brain)
    assert bits(widen(got)) == bits(correctly_rounded(widen(brain[0]), widen(brain[1]), "bfloat16").astype(np.float32))
    short = float8.narrow(a.astype(np.float32)), float8.narrow(b.astype(np.float32))
    got = multiply_exactly(Problem(M, N, 40, "float8_e4m3"), *short)
    assert bits(got) == bits(correctly_rounded(float8.widen(short[0]), float8.widen(short[1]), "float32"))


def test_ties_go_to_even_and_the_least_remainder_decides() -> None:
    """Sums that lie half-way between two numbers but for a term of 2^-100, or exactly."""
    for last, want in ((0.0, 1.0), (2.0**-100, 1 + 2.0**-23), (-(2.0**-100), 1.0)):
        a = np.array([[1.0, 2.0**-24, last]], np.float32)
        got = multiply_exactly(Problem(1, 1, 3, "float32"), a, np.ones((3, 1), np.float32))
        assert got[0, 0] == np.float32(want), last


def deep(dtype: DTypeName) -> tuple[Problem, Array, Array]:
    rng = np.random.default_rng(8)
    a, b = (np.ldexp(rng.standard_normal(shape), rng.integers(-12, 12, shape)) for shape in ((33, 700), (700, 21)))
    return Problem(33, 21, 700, dtype), a.astype(dtype), b.astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("block", "depth", "levels"), [(7, 64, 0), (16, 300, 1), (4096, 2048, 9)])
def test_bits_do_not_depend_on_blocks_or_passes(
    monkeypatch: pytest.MonkeyPatch, dtype: DTypeName, block: int, depth: int, levels: int
) -> None:
    problem, a, b = deep(dtype)
    want = bits(multiply_exactly(problem, a, b))
    monkeypatch.setattr(exact_product, "BLOCK", block)
    monkeypatch.setattr(exact_product, "DEPTH", depth)
    monkeypatch.setattr(exact_product, "LEVELS", levels)
    assert bits(multiply_exactly(problem, a, b)) == want
    assert slices.DEPTH == 2048, "so many products of slices are below 2^53"


@pytest.mark.parametrize("dtype", FLOATS)
def test_bits_do_not_depend_on_threads_order_or_batch(dtype: DTypeName) -> None:
    problem, a, b = deep(dtype)
    with threadpool_limits(1):
        want = bits(multiply_exactly(problem, a, b))
    with threadpool_limits(8):
        assert bits(multiply_exactly(problem, a, b)) == want
    order = np.random.default_rng(1).permutation(700)
    assert bits(multiply_exactly(problem, a[:, order], b[order])) == want
    turned = Problem(33, 21, 700, dtype, 1, True, True)
    assert bits(multiply_exactly(turned, a.T.copy(), b.T.copy())) == want
    batch = Problem(33, 21, 700, dtype, 3, a_batched=True)
    assert [bits(each) for each in multiply_exactly(batch, np.stack([a, -a, a]), b)][::2] == [want, want]


def test_nan_and_infinities_follow_ieee_whatever_finite_terms_do() -> None:
    inf, nan, large = np.inf, np.nan, 3e38
    a = np.array([[inf, 1, large], [inf, -inf, 0], [nan, 0, 0], [large, large, large], [1, 2, 3]], np.float32)
    b = np.array([[1, 0, -1, inf], [2, 1, -1, 1], [large, 1, 0, 1]], np.float32)
    got = multiply_exactly(Problem(5, 4, 3, "float32"), a, b)
    want = np.array(
        [[inf, nan, -inf, inf], [nan, nan, nan, nan], [nan, nan, nan, nan], [inf, inf, -inf, inf], [inf, 5, -3, inf]],
        np.float32,
    )
    np.testing.assert_array_equal(got, want)
    assert {int(each) for each in got.view(np.uint32)[np.isnan(got)]} == {0x7FC00000}


def test_sums_of_zero_are_positive_and_no_steps_give_zeros() -> None:
    got = multiply_exactly(Problem(1, 1, 2, "float64"), np.array([[-0.0, 0.0]]), np.ones((2, 1)))
    assert bits(got) == bits(np.zeros((1, 1)))
    got = multiply_exactly(Problem(1, 1, 1, "float64"), np.array([[-5e-324]]), np.array([[0.25]]))
    assert bits(got) == bits(np.array([[-0.0]]))  # an underflow is no sum of zero: it keeps its sign
    assert not multiply_exactly(Problem(2, 3, 0, "float32"), np.zeros((2, 0), "f4"), np.zeros((0, 3), "f4")).any()
