"""All elements of a small product at once: the same numbers as the general way, which has the last word on the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName, Problem
from tests.support.kernels.products import FLOAT_DATA, Data, operands
from worker.check import verify
from worker.check.elementwise import MAX_ELEMENTS, Operands, worst_of_rows, worst_within
from worker.check.rounding import Rounding, rounding_of
from worker.cpu.blas import multiply
from worker.device.runner import host_operands

QUICK: tuple[DTypeName, ...] = ("float16", "bfloat16", "float32")


def both_ways(problem: Problem, a: Array, b: Array, c: Array) -> tuple[float | None, float]:
    found, rounding = host_operands(problem, a, b, c).elementwise, _rounding(problem)
    rows = np.arange(problem.m)
    return worst_within(found, rounding), max(
        worst_of_rows(found, item, rows, rounding) for item in range(problem.batch)
    )


def _rounding(problem: Problem) -> Rounding:
    return rounding_of(problem, "fp64" if problem.dtype == "float64" else "fp32")


@settings(max_examples=300, deadline=None)
@given(
    dtype=st.sampled_from((*QUICK, "float64")),
    sizes=st.tuples(st.integers(1, 24), st.integers(1, 24), st.integers(0, 60)),
    data=st.sampled_from(FLOAT_DATA),
    batched=st.tuples(st.booleans(), st.booleans()),
    transposes=st.tuples(st.booleans(), st.booleans()),
    spoilt=st.sampled_from((0.0, 1e-9, 1e-7, 1e-6, 1e-4, 1e-2, 1.0, np.inf, np.nan)),
    infinite=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_the_same_number_or_none(
    dtype: DTypeName,
    sizes: tuple[int, int, int],
    data: Data,
    batched: tuple[bool, bool],
    transposes: tuple[bool, bool],
    spoilt: float,
    infinite: bool,
    seed: int,
) -> None:
    """Whatever is in the matrices, and however far off an element is."""
    rng = np.random.default_rng(seed)
    problem = Problem(*sizes, dtype, 3 if any(batched) else 1, *transposes, *batched)
    a, b = operands(problem, rng, data)
    a = a.copy()  # some data are a view that cannot be written to
    if infinite and a.size and dtype != "bfloat16":
        a.flat[rng.integers(a.size)] = rng.choice([np.inf, -np.inf, np.nan])
    with np.errstate(all="ignore"):
        c = multiply(problem, a, b).reshape(problem.batch, problem.m, problem.n)
        if spoilt and c.dtype.kind == "f":
            place = rng.integers(c.size)
            c.flat[place] = c.flat[place] * (1 + spoilt) + spoilt * rng.choice([0, 1])
        quick, general = both_ways(problem, a, b, c)
    assert quick is None or quick == pytest.approx(general, rel=1e-6, abs=1e-9)  # sums may go in another order
    assert general <= 1.0 or quick is None


@pytest.mark.parametrize("dtype", QUICK)
@pytest.mark.parametrize("batch", [1, 16])
def test_usual_products_go_this_way(dtype: DTypeName, batch: int) -> None:
    problem = Problem(16, 24, 20, dtype, batch, a_batched=batch > 1, b_batched=batch > 1)
    a, b = operands(problem, np.random.default_rng(5), "normal")
    quick, general = both_ways(problem, a, b, multiply(problem, a, b))
    assert quick == pytest.approx(general, rel=1e-6) and 0 < general <= 1


def test_one_element_beyond_its_bound_is_for_the_general_way() -> None:
    """In each place of each product of a batch."""
    problem = Problem(4, 5, 6, "float32", 3, a_batched=True, b_batched=True)
    a, b = operands(problem, np.random.default_rng(6), "normal")
    c = multiply(problem, a, b)
    for place in np.ndindex(c.shape):
        wrong = c.copy()
        wrong[place] += 1e-3
        assert both_ways(problem, a, b, wrong)[0] is None


def test_large_products_go_the_general_way() -> None:
    problem = Problem(MAX_ELEMENTS + 1, 1, 1, "float32")
    a, b = operands(problem, np.random.default_rng(7), "normal")
    assert worst_within(host_operands(problem, a, b, a @ b).elementwise, _rounding(problem)) is None


def test_the_check_of_a_batch_looks_at_its_matrices_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(16, 16, 16, "float32", 32, a_batched=True, b_batched=True)
    a, b = operands(problem, np.random.default_rng(8), "normal")
    product = host_operands(problem, a, b, multiply(problem, a, b))

    def general(operands: Operands, *_: object) -> float:
        raise AssertionError("each matrix by itself")

    monkeypatch.setattr(verify, "worst_of_rows", general)
    assert verify.check(problem, "fp32", product, np.random.default_rng(9)).passed
