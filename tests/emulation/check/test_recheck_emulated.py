"""Rows and columns computed again by the GPU's kernel, in the emulation, against the host's rule: the same ratios, and
what the host refuses is left to it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName, Problem
from tests.emulation.check.rechecking import Given, compiled, rechecked
from tests.emulation.programs import Compiled, Emulator
from tests.support.kernels.products import Data, matrix, operands, stored
from worker.check.block import NEAR
from worker.check.elements import as_float64
from worker.check.elementwise import worst_of_element
from worker.check.rounding import rounding_of
from worker.cpu import blas as cpu_blas
from worker.cuda.check import recheck_plan
from worker.cuda.check.recheck_plan import CAPACITY

Kind = tuple[DTypeName, DTypeName | None]
Kernels = Mapping[Kind, Compiled]
FLOAT32: Kind = ("float32", None)
FLOAT64: Kind = ("float64", None)
FUSED: Kind = ("bfloat16", "float32")
KINDS: tuple[Kind, ...] = (("float16", None), FLOAT32, FLOAT64, ("float8_e4m3", None), FUSED)
LOWERED: tuple[AccuracyName, ...] = ("tf32", "bf16", "fp16")
DATA: tuple[Data, ...] = ("normal", "wide", "ramp", "constant", "sparse")


@pytest.fixture(scope="module")
def kernels(emulator: Emulator, pool: Executor) -> Kernels:
    return dict(zip(KINDS, pool.map(lambda kind: compiled(emulator, *kind), KINDS), strict=True))


def made(problem: Problem, data: Data, seed: int, accuracy: AccuracyName | None = None) -> Given:
    a, b = operands(problem, np.random.default_rng(seed), data)
    with np.errstate(all="ignore"):
        c = cpu_blas.multiply(problem, a, b)
    return Given(problem, a, b, c, rounding_of(problem, accuracy or DTYPES[problem.dtype].accuracy))


def lines_of(given: Given, *, of_columns: bool) -> Array:
    """A mask of few lines, the last among them; of a batch, of the first item and the last."""
    batch, m, n = given.operands.c.shape
    mask = np.zeros((batch, n if of_columns else m), np.bool_)
    mask[0, [1, 4]] = mask[-1, [2, -1]] = True
    return mask


def by_host(given: Given, mask: Array, *, of_columns: bool) -> dict[tuple[int, int, int], float]:
    """The ratio of each element of these lines."""
    _, m, n = given.operands.c.shape
    places = (
        (int(item), other, int(line)) if of_columns else (int(item), int(line), other)
        for item, line in np.argwhere(mask)
        for other in range(m if of_columns else n)
    )
    return {place: worst_of_element(given.operands, *place, given.rounding) for place in places}


def assert_as_on_host(kernel: Compiled, given: Given, *, of_columns: bool = False, order: int = 0) -> list[float]:
    """Returns what is beyond its bound."""
    mask = lines_of(given, of_columns=of_columns)
    found = rechecked(kernel, given, mask, of_columns=of_columns, order=order)
    expected = by_host(given, mask, of_columns=of_columns)
    wrong = {place for place, ratio in expected.items() if ratio > 1.0}
    assert found.left <= CAPACITY and found.left == len(found.open)
    assert wrong <= set(found.open)
    right = max((ratio for place, ratio in expected.items() if place not in found.open), default=0.0)
    if given.rounding.is_float64:  # here sums are compensated, there only of those that are near
        np.testing.assert_allclose(max(found.worst, NEAR), max(right, NEAR), rtol=2e-3)
    else:
        np.testing.assert_allclose(found.worst, right, rtol=1e-9, atol=1e-8)
    return [expected[place] for place in found.open]


def bound_of(given: Given, item: int, row: int, column: int) -> float:
    """What the class allows that element."""
    whole, read = np.arange(given.problem.k), given.operands
    at_row, at_column = np.array([[row]]), np.array([column])
    a, b = np.abs(read.a.elements(item, at_row, whole)), np.abs(read.b.elements(item, whole[:, np.newaxis], at_column))
    value = np.abs(read.c.elements(item, at_row, at_column))
    return float(given.rounding.element_bound(a @ b, np.sqrt(np.square(a) @ np.square(b)), value).item())


def damaged(given: Given) -> Given:
    """Elements that are off by a little less than their bound, a little more, and by far; and some not finite."""
    c, dtype = given.c.copy(), given.problem.product_dtype
    whole = c.reshape(given.problem.batch, given.problem.m, given.problem.n)
    values, last = as_float64(whole, dtype), given.problem.batch - 1
    for item, row, column, share in ((0, 1, 2, 0.9), (0, 1, 9, 2.5), (0, 4, 8, 1e4), (last, 2, 3, -2.5)):
        off = share * bound_of(given, item, row, column)
        whole[item, row, column] = stored(np.array(values[item, row, column] + off), dtype)
    whole[0, 4, 7], whole[last, -1, 1] = (stored(np.array(each), dtype) for each in (np.nan, np.inf))
    return replace(given, c=c)


@pytest.mark.parametrize("kind", KINDS[:4])
def test_every_element_has_the_host_s_ratio(kind: Kind, kernels: Kernels) -> None:
    for order, data in enumerate(DATA):
        way = order % 2 == 1
        problem = Problem(35, 70, 41, kind[0], 2, way, not way, a_batched=True, b_batched=way)
        assert assert_as_on_host(kernels[kind], made(problem, data, order), of_columns=way, order=order) == []


@pytest.mark.parametrize("kind", KINDS[:4])
def test_what_is_beyond_its_bound_is_left_to_the_host(kind: Kind, kernels: Kernels) -> None:
    for order, data in enumerate(DATA[:3]):
        problem = Problem(20, 66, 33, kind[0], 2, order == 0, order == 1, a_batched=order != 1, b_batched=order != 0)
        left = assert_as_on_host(kernels[kind], damaged(made(problem, data, order)), order=order)
        assert sum(ratio > 1.0 for ratio in left) >= 4


@pytest.mark.parametrize("kind", KINDS[:4])
def test_nan_and_infinity(kind: Kind, kernels: Kernels) -> None:
    """Where IEEE arithmetic puts them nothing is left; out of nothing, they are."""
    problem = Problem(20, 66, 33, kind[0], 2, True, False, a_batched=True)
    given = made(problem, "normal", 5)
    given.a[0, 7, 1], given.a[1, 3, 2] = (stored(np.array(each), kind[0]) for each in (np.nan, np.inf))
    given.b[5, 65], given.b[6, 2] = (stored(np.array(each), kind[0]) for each in (-np.inf, 0.0))
    with np.errstate(all="ignore"):
        given = replace(given, c=cpu_blas.multiply(problem, given.a, given.b))
    for of_columns in (False, True):
        assert assert_as_on_host(kernels[kind], given, of_columns=of_columns) == []
    c = given.c.copy()
    c[0, 1, 5], c[1, 2, 7], c[1, -1, 65] = (stored(np.array(each), problem.product_dtype) for each in (0.0, 1.0, -1.0))
    assert assert_as_on_host(kernels[kind], replace(given, c=c)) == [np.inf] * 3


def test_overflow(kernels: Kernels) -> None:
    """Of the product's type, on the way to a sum, and of none of these."""
    problem = Problem(20, 66, 8, "float16")
    given = made(problem, "normal", 6)
    given.a[1], given.b[:, 7:] = (stored(np.array(each), "float16") for each in (300.0, 200.0))
    with np.errstate(all="ignore"):
        given = replace(given, c=cpu_blas.multiply(problem, given.a, given.b))
    assert np.isinf(given.c[1]).any()
    assert assert_as_on_host(kernels["float16", None], given) == []
    wide = Problem(20, 66, 8, "float32")
    of_float32 = made(wide, "normal", 6)
    of_float32.a[1] = np.float32(1e30) * np.array([1, 1, -1, -1, 1, 1, -1, -1], np.float32)
    of_float32.b[:, :9] = 3e8
    c = of_float32.c.copy()
    c[1, :6], c[1, 6:9] = (0.0, np.inf, np.nan, -np.inf, 1.0, 1e30), (0.0, 0.0, 0.0)
    with np.errstate(all="ignore"):
        c[1, 9:] = cpu_blas.multiply(wide, of_float32.a, of_float32.b)[1, 9:]
    assert_as_on_host(kernels[FLOAT32], replace(of_float32, c=c))


def test_float64_beyond_its_range_is_left_to_the_host(kernels: Kernels) -> None:
    problem = Problem(20, 66, 12, "float64")
    given = made(problem, "normal", 7)
    given.a[1], given.a[4], given.b[:, 3], given.b[:, 5] = 2.0**600, 2.0**-600, 2.0**-600, 2.0**600
    with np.errstate(all="ignore"):
        given = replace(given, c=cpu_blas.multiply(problem, given.a, given.b))
    given.c[4, 3] = 0.0
    left = assert_as_on_host(kernels[FLOAT64], given)
    assert left and max(left) <= 1.0
    given.c[1, 5] = 0.0
    assert max(assert_as_on_host(kernels[FLOAT64], given)) > 1.0


@pytest.mark.parametrize("accuracy", LOWERED)
def test_operands_that_are_rounded_first(accuracy: AccuracyName, kernels: Kernels) -> None:
    """Those that are alike are all rounded one way, or truncated. The exact product of these explains it."""
    for to_whole in (np.rint, np.trunc):
        problem = Problem(20, 66, 200, "float32", transpose_b=True)
        given = made(problem, "constant", 0, accuracy)
        bits = {"tf32": 11, "bf16": 8, "fp16": 11}[accuracy]
        a, b = (
            np.ldexp(to_whole(np.ldexp(each, bits + 3)), -bits - 3).astype(np.float32) for each in (given.a, given.b)
        )
        right = replace(given, c=cpu_blas.multiply(problem, a, b))
        assert assert_as_on_host(kernels[FLOAT32], right) == []
        assert max(assert_as_on_host(kernels[FLOAT32], damaged(right))) > 1.0
    small = made(problem, "tiny", 1, accuracy)
    small.a[1] *= np.float32(2.0**-20)
    assert_as_on_host(kernels[FLOAT32], small)


def test_truncated_operands_explain_no_more_than_the_worst_case(kernels: Kernels) -> None:
    """Just above a number of 11 bits the loss is beyond the bound and is explained; close to the next, it is beyond
    what any sum may be off by."""
    problem = Problem(6, 10, 2000, "float32")
    for loss, is_wrong in ((1.2 * 2.0**-11, False), (2.0**-10 - 2.0**-23, True)):
        given = made(problem, "constant", 0, "tf32")
        given.a[:], given.b[:] = 1.0 + loss, 1.0 + loss
        left = assert_as_on_host(kernels[FLOAT32], replace(given, c=np.full((6, 10), 2000.0, np.float32)))
        assert (len(left) == 4 * 10 and min(left) > 1.0) if is_wrong else left == []


def test_what_the_shorter_type_has_no_number_for(kernels: Kernels) -> None:
    problem = Problem(6, 10, 20, "float32")
    given = made(problem, "normal", 0, "tf32")
    given.a[1, 3], given.b[:, 4] = np.finfo(np.float32).max, 1e-30
    c = cpu_blas.multiply(problem, given.a, given.b)
    c[1, 4] = np.inf
    assert assert_as_on_host(kernels[FLOAT32], replace(given, c=c)) == []
    c[2, 5] = np.inf
    assert assert_as_on_host(kernels[FLOAT32], replace(given, c=c)) == [np.inf]


@pytest.mark.parametrize("of_rows", [True, False])
def test_products_with_an_epilogue(of_rows: bool, kernels: Kernels) -> None:
    rng, alpha, beta = np.random.default_rng(8), -0.3, 7.0
    problem = Problem(20, 66, 41, "bfloat16", 2, b_batched=True)
    a, b = operands(problem, rng)
    c, bias = matrix((2, 20, 66), "float32", rng), matrix((1, 20, 1) if of_rows else (1, 1, 66), "float32", rng)
    bias[0, -1, -1] = np.finfo(np.float32).max
    rounding = rounding_of(replace(problem, dtype="float32"), "tf32").fused(alpha, "float32")
    of_a, of_b = (as_float64(each, "bfloat16") for each in (a, b))
    with np.errstate(over="ignore"):
        d = (alpha * (of_a @ of_b) + beta * c + bias).astype(np.float32)
    d[1, -1, -1] = np.inf
    given = Given(problem, a, b, d, rounding, "float32", alpha, beta, (c, bias))
    for of_columns in (False, True):
        assert assert_as_on_host(kernels[FUSED], given, of_columns=of_columns) == []
        d[0, 1, 4] += 1.0
        assert len(assert_as_on_host(kernels[FUSED], given, of_columns=of_columns)) == 1
        d[0, 1, 4] -= 1.0


def test_sums_that_begin_anew_after_a_block_of_scales(kernels: Kernels) -> None:
    """Whatever comes near its bound is left, as these operands are rounded once more on the device."""
    problem = Problem(20, 66, 300, "float32")
    given = made(problem, "uniform", 9)
    rounding = rounding_of(Problem(20, 66, 300, "float8_e4m3", scale_columns=128), "fp8")
    assert rounding.depth == 128
    given = replace(given, rounding=rounding)
    c = given.c.copy()
    c[1, 3] += np.float32(0.7 * bound_of(given, 0, 1, 3))
    given, mask = replace(given, c=c), lines_of(given, of_columns=False)
    assert rechecked(kernels[FLOAT32], given, mask).open == []
    assert rechecked(kernels[FLOAT32], given, mask, decides=False).open == [(0, 1, 3)]


def test_more_than_can_be_left(kernels: Kernels) -> None:
    problem = Problem(20, 66, 33, "float16")
    given = made(problem, "normal", 10)
    given = replace(given, c=np.zeros_like(given.c))
    found = rechecked(kernels["float16", None], given, np.ones((1, 20), np.bool_))
    assert found.left > len(found.open) == CAPACITY
    assert all(worst_of_element(given.operands, *place, given.rounding) > 1.0 for place in found.open[:5])


def test_several_launches(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    given = damaged(made(Problem(70, 66, 33, "float16", 3, a_batched=True), "normal", 11))
    mask = np.ones((3, 70), np.bool_)
    mask[1] = False
    mask[2, 40:] = False
    whole = rechecked(kernels["float16", None], given, mask)
    monkeypatch.setattr(recheck_plan, "MAX_TERMS", 1)
    parts = rechecked(kernels["float16", None], given, mask)
    assert (parts.worst, sorted(parts.open)) == (whole.worst, sorted(whole.open)) and len(whole.open) == 5
