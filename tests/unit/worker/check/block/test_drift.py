"""Elements beyond their bound whose sums drift: each is explained by its own partial sums, however many there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName, Problem
from worker.check.block import MAX_TERMWISE, Block, FusedBlock
from worker.check.rounding import Rounding, min_partial_sums, partial_sums, rounding_of

K, DRIFTING = 4096, MAX_TERMWISE + 50
ROUNDOFF: dict[DTypeName, float] = {"float32": 2.0**-24, "float64": 2.0**-53}


def rounding(dtype: DTypeName) -> Rounding:
    return rounding_of(Problem(1, DRIFTING + 1, K, dtype), "fp32" if dtype == "float32" else "fp64")


def operands() -> tuple[Array, Array]:
    """A row of ones, and columns of ones, whose partial sums only grow. Those of the last column stay near zero."""
    b = np.ones((K, DRIFTING + 1))
    b[1::2, -1] = -1.0
    return np.ones((1, K)), b


def off(dtype: DTypeName, times: float, times_last: float) -> Array:
    """So many times the bound, 4·√k·u·Σ|ab|. The drift of a column of ones explains sixteen times as much."""
    a, b = operands()
    errors = np.full((1, DRIFTING + 1), times)
    errors[0, -1] = times_last
    product: Array = a @ b + errors * 4 * np.sqrt(K) * ROUNDOFF[dtype] * K
    return product


def worst(dtype: DTypeName, product: Array) -> float:
    return Block(*operands(), product, rounding(dtype), None).worst()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_none_hides_behind_others_that_are_farther_off(dtype: DTypeName) -> None:
    assert worst(dtype, off(dtype, 5.0, 0.0)) <= 1.0
    assert worst(dtype, off(dtype, 5.0, 3.0)) == pytest.approx(3.0, rel=0.1)
    assert worst(dtype, off(dtype, 20.0, 0.0)) == pytest.approx(1.2, rel=0.1)


def test_none_hides_in_a_product_with_an_epilogue() -> None:
    """Twice the product, and something added."""
    ends = [np.full((1, DRIFTING + 1), 7.0)]

    def worst_of(product: Array) -> float:
        fused = rounding("float32").fused(2.0, "float32")
        return FusedBlock(*operands(), 2.0 * product + 7.0, fused, 2.0, ends).worst()

    assert worst_of(off("float32", 5.0, 0.0)) <= 1.0
    assert worst_of(off("float32", 5.0, 3.0)) > 1.0


def test_few_are_summed_term_by_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole block may drift, and each takes as long as a row of it does by BLAS."""
    summed: list[int] = []
    termwise = Block._termwise

    def counted(block: Block, row: int, column: int, product: Array) -> float:
        summed.append(column)
        return termwise(block, row, column, product)

    monkeypatch.setattr(Block, "_termwise", counted)
    assert worst("float32", off("float32", 5.0, 0.0)) <= 1.0
    assert len(summed) == MAX_TERMWISE


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(1, 300), st.sampled_from([0.0, 0.5, 3.0]))
def test_partial_sums_are_bounded_from_below(seed: int, k: int, depth: int, mean: float) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(mean, 1.0, (3, k)), rng.normal(mean, 1.0, (k, 4))
    least = min_partial_sums(a, b, min(depth, k))
    sums = np.array([[partial_sums(row * column, min(depth, k)) for column in b.T] for row in a])
    assert (least <= sums).all() and (least >= 0.0).all()


def test_the_bound_is_near_where_all_terms_have_one_sign() -> None:
    a, b = operands()
    assert min_partial_sums(a, b, K)[0, 0] > 0.9 * partial_sums(a[0] * b[:, 0], K)
