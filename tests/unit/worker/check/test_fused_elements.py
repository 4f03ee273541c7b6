"""Elements of alpha·A·B + beta·C + bias that was rounded once: right ones are within their bound, whatever the class
and the scales, and one that is off by more is not."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.numerics import AccuracyName, DTypeName, Problem
from tests.support.kernels.products import matrix, stored
from worker.check.elements import as_float64, widen
from worker.check.elementwise import Added, Operands, worst_of_columns, worst_of_rows
from worker.check.host_matrix import HostMatrix
from worker.check.rounding import rounding_of

M, N, K = 9, 14, 300
ALPHA, BETA = -0.3, 7.0
# The type of operands, that of D, and the class; operands of 16 bits whose product is float32 are in `tf32`.
CASES: list[tuple[DTypeName, DTypeName, AccuracyName]] = [
    ("bfloat16", "bfloat16", "bf16"),
    ("float16", "float16", "tf32"),
    ("bfloat16", "float32", "tf32"),
    ("float32", "float32", "tf32"),
]


class Given:
    """`scale`: of what is added."""

    def __init__(self, dtype: DTypeName, output: DTypeName, accuracy: AccuracyName, scale: float = 1.0) -> None:
        rng = np.random.default_rng(3)
        self.dtype, self.output = dtype, output
        self.a, self.b = matrix((1, M, K), dtype, rng), matrix((1, K, N), dtype, rng)
        self.c, self.bias = (stored(rng.standard_normal(shape) * scale, output) for shape in ((1, M, N), (1, 1, N)))
        problem = Problem(M, N, K, dtype if dtype == output else "float32")
        self.rounding = rounding_of(problem, accuracy).fused(ALPHA, output)

    def d(self) -> Array:
        """As kernels have it: of float32 sums, in float32."""
        a, b = (self._rounded(widen(each, self.dtype)) for each in (self.a, self.b))
        c, bias = (widen(each, self.output).astype(np.float32) for each in (self.c, self.bias))
        with np.errstate(over="ignore"):
            return stored(np.float32(ALPHA) * (a @ b) + np.float32(BETA) * c + bias, self.output)

    def _rounded(self, values: Array) -> Array:
        """To TF32, where operands are of float32."""
        if self.dtype != "float32":
            return values.astype(np.float32)
        bits = values.view(np.uint32)
        return ((bits + 0xFFF + (bits >> 13 & 1)) & ~np.uint32(0x1FFF)).view(np.float32)

    def worst(self, d: Array) -> float:
        a, b = HostMatrix(self.a, self.dtype), HostMatrix(self.b, self.dtype)
        terms = ((BETA, HostMatrix(self.c, self.output)), (1.0, HostMatrix(self.bias, self.output)))
        operands = Operands(a, b, HostMatrix(d, self.output), Added(ALPHA, terms))
        worst = worst_of_rows(operands, 0, np.arange(M), self.rounding)
        assert worst_of_columns(operands, 0, np.arange(N), self.rounding) == worst
        return worst

    def spoiled(self, by: float) -> Array:
        """One element, by so much of all its terms."""
        terms = abs(ALPHA) * (np.abs(as_float64(self.a, self.dtype)) @ np.abs(as_float64(self.b, self.dtype)))
        size = float(terms[0, 4, 5] + abs(BETA * as_float64(self.c, self.output)[0, 4, 5]))
        d = self.d()
        d[0, 4, 5] = stored(np.array(as_float64(d, self.output)[0, 4, 5] + by * size), self.output)
        return d


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case))
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_what_is_right_is_within_its_bound(case: tuple[DTypeName, DTypeName, AccuracyName], scale: float) -> None:
    given = Given(*case, scale=0.0 if scale == 0.0 else min(scale, 1e3 if case[1] == "float16" else scale))
    assert given.worst(given.d()) <= 1.0


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case))
def test_what_is_off_by_more_is_not(case: tuple[DTypeName, DTypeName, AccuracyName]) -> None:
    given = Given(*case)
    assert given.worst(given.spoiled(by=0.02)) > 1.0
    no_bias = given.d()
    given.bias = stored(as_float64(given.bias, case[1]) + 9.0, case[1])
    assert given.worst(no_bias) > 1.0


def test_a_bound_of_what_is_added_is_no_bound_of_operands() -> None:
    """TF32 rounds operands, and neither C nor the bias: beside a large C an element is held to what is left."""
    given = Given("float32", "float32", "tf32", scale=1e4)
    assert given.worst(given.d()) <= 1.0
    wrong = given.d()
    wrong[0, 2, 3] *= np.float32(1 + 2.0**-13)
    assert given.worst(wrong) > 1.0


def test_terms_of_one_sign_are_granted_what_their_sums_explain() -> None:
    """A sum that is cut at each step, as tensor cores do it."""
    given = Given("bfloat16", "float32", "tf32")
    given.rounding = rounding_of(Problem(M, N, K, "float8_e4m3"), "fp32").fused(ALPHA, "float32")
    given.a[:], given.b[:] = stored(np.ones(given.a.shape), "bfloat16"), stored(np.full(given.b.shape, 1.1), "bfloat16")
    exact = as_float64(given.a, "bfloat16") @ as_float64(given.b, "bfloat16")
    added = BETA * given.c.astype(np.float64) + given.bias
    for steps, is_right in ((K // 2, True), (3 * K, False)):
        cut = exact * (1 - steps * 2.0**-24)
        assert (given.worst((ALPHA * cut + added).astype(np.float32)) <= 1.0) is is_right


def test_what_leaves_the_range_is_right_where_the_range_explains_it() -> None:
    given = Given("float16", "float16", "tf32")
    given.bias[0, 0, 3] = stored(np.array(60000.0), "float16")
    given.c[0, 2, 3] = stored(np.array(6000.0), "float16")
    given.c[0, 1, 7] = stored(np.array(np.nan), "float16")
    d = given.d()
    assert np.isinf(as_float64(d, "float16")[0, 2, 3]) and np.isnan(as_float64(d, "float16")[0, 1, 7])
    assert given.worst(d) <= 1.0
    for value in (np.inf, np.nan):
        wrong = d.copy()
        wrong[0, 5, 5] = stored(np.array(value), "float16")
        assert given.worst(wrong) == np.inf
