"""What `fp32_emulated` decides from sums of logarithms, by its model: the bounds hold, and nothing that is given to
digits is further off than float32 sums of the same lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from jobs.formats.elements import Array
from kernels.entries.fp32_emulated import FP32_EMULATED, LARGEST_DEPTH, is_direct
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from tests.support.kernels.emulated import line_exponents, line_quarters, product
from tests.support.kernels.emulated_judge import NO_DIGITS, judge, judge_lines, limit, logs
from tests.support.kernels.products import sum_in_order

DEPTH, SIDE = 1024, 128
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
BOTH = (True, False)
Pair = tuple[Array, Array]


def normal(rng: np.random.Generator) -> Pair:
    return rng.standard_normal((SIDE, DEPTH), np.float32), rng.standard_normal((DEPTH, SIDE), np.float32)


def one_large(power: int, partner: float) -> Callable[[np.random.Generator], Pair]:
    """A row small but for one element, which meets zeros or next to nothing."""

    def make(rng: np.random.Generator) -> Pair:
        a, b = normal(rng)
        a[0] *= np.float32(2.0**-power)
        a[0, 0], b[0] = 1.0, partner
        return a, b

    return make


def two_large(rng: np.random.Generator) -> Pair:
    a, b = normal(rng)
    a[0, 0] = a[1, 1] = 2.0**20
    b[0] = 0
    return a, b


def scaled_along_k(binades: float, rows: int) -> Callable[[np.random.Generator], Pair]:
    def make(rng: np.random.Generator) -> Pair:
        a, b = normal(rng)
        scales = np.exp2(rng.uniform(-binades / 2, binades / 2, DEPTH)).astype(np.float32)
        a[:rows] *= scales
        if rows == SIDE:
            b /= scales[:, np.newaxis]
        return a, b

    return make


def log_normal(sigma: float) -> Callable[[np.random.Generator], Pair]:
    def make(rng: np.random.Generator) -> Pair:
        a, b = normal(rng)
        return a * np.exp(sigma * normal(rng)[0]), b * np.exp(sigma * normal(rng)[1])

    return make


def bytes_and_normal(rng: np.random.Generator) -> Pair:
    """Whole numbers of one sign: what rounding their partners leaves would add up, were it not even."""
    return rng.integers(0, 256, (SIDE, DEPTH)).astype(np.float32), normal(rng)[1]


def half_zeros(rng: np.random.Generator) -> Pair:
    a, b = normal(rng)
    return np.maximum(a, 0), b


def outliers(rng: np.random.Generator) -> Pair:
    """Elements of one size, one in each row and column some times larger."""
    a, b = normal(rng)
    for each in (a, b):
        each[:] = np.sign(each) * rng.uniform(0.9, 1.1, each.shape)
    a[np.arange(SIDE), rng.integers(0, DEPTH, SIDE)] *= 6
    b[rng.integers(0, DEPTH, SIDE), np.arange(SIDE)] *= 6
    return a, b


def sparse(rng: np.random.Generator) -> Pair:
    a, b = normal(rng)
    return a * (rng.random(a.shape) < 0.01), b * (rng.random(b.shape) < 0.01)


# Whether the whole product is left to float32, and how many rows of A are listed.
KINDS: Mapping[str, tuple[Callable[[np.random.Generator], Pair], bool, int]] = {
    "normal": (normal, False, 0),
    "16 binades below an element that meets zeros": (one_large(16, 0.0), False, 1),
    "16 binades below an element that meets next to nothing": (one_large(16, 2.0**-30), False, 1),
    "20 binades below an element that meets zeros": (one_large(20, 0.0), False, 1),
    "two large elements": (two_large, False, 2),
    "scaled along k": (scaled_along_k(40, SIDE), True, 0),
    "a little scaled along k": (scaled_along_k(6, SIDE), False, 0),
    "few rows scaled along k": (scaled_along_k(40, 3), False, 3),
    "log-normal, 0.8": (log_normal(0.8), False, 0),
    "log-normal, 3": (log_normal(3), True, 0),
    "bytes": (bytes_and_normal, False, 0),
    "half zeros": (half_zeros, False, 0),
    "outliers": (outliers, False, 0),
    "sparse": (sparse, True, 0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_row_or_column_is_further_off_than_float32_s(kind: str) -> None:
    """The worst of each, and every element within its class; of lines that digits carry."""
    make, in_float32, rows = KINDS[kind]
    a, b = (np.ascontiguousarray(x, np.float32) for x in make(np.random.default_rng(4)))
    judged = judge(a, b.T, along=BOTH)
    assert judged.in_float32 == in_float32
    if in_float32:
        return
    if kind != "log-normal, 0.8":
        assert len(judged.rows) == rows and not len(judged.columns)
    (way,) = judged.ways
    kept = [np.setdiff1d(np.arange(SIDE), listed) for listed in (judged.rows, judged.columns)]
    a, b = a[kept[0]], b[:, kept[1]]
    true = a.astype(np.float64) @ b.astype(np.float64)
    bound = 4 * np.sqrt(DEPTH) * 2.0**-24 * (np.abs(a).astype(np.float64) @ np.abs(b)) + 2.0**-24 * np.abs(true)
    ours, float32 = product(a, b.T, way) - true, sum_in_order(a, b) - true
    assert np.all(np.abs(ours) <= bound)
    for axis in (0, 1):
        size = np.linalg.norm(true, axis=axis)
        worst, granted = ((np.linalg.norm(off, axis=axis) / size).max() for off in (ours, float32))
        assert worst <= 1.6 * granted if kind == "outliers" else worst <= granted


LINE = arrays.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=FLOATS)


@given(LINE, st.booleans())
def test_logarithms_are_bounds_from_below(lines: Array, along: bool) -> None:
    """Of normal numbers; and those of sums of four, of means."""
    found, exact = logs(lines, along=along), np.abs(lines.astype(np.float64))
    normal = exact >= 2.0**-126
    true = np.where(normal, np.log2(np.where(normal, exact, 1)), 0).sum(axis=1)
    np.testing.assert_array_equal(found.count, normal.sum(axis=1))
    assert np.all(found.sum / 16 - 127 * found.count <= true + 1e-9)


@settings(max_examples=200)
@given(st.data())
def test_sums_of_magnitudes_are_no_less_than_weights_tell(data: st.DataObject) -> None:
    """|A|·|B| is at least N·F·F'·2^-E, with N and E bounded by the weights of both lines: what digits that are right
    to a part of F·F' are held against."""
    k = data.draw(st.integers(4, 60))
    moderate = st.floats(width=32, min_value=-(2.0**30), max_value=2.0**30) | st.just(0.0)
    a = data.draw(arrays.arrays(np.float32, (1, k), elements=moderate))
    b = data.draw(arrays.arrays(np.float32, (1, k), elements=moderate))
    judged = [judge_lines(x, along=True) for x in (a, b)]
    most = limit("ten", k)
    if any(each.is_empty[0] or each.kept[0] == NO_DIGITS for each in judged):  # no digits carry such a line
        return
    if sum(float(each.weight[0]) for each in judged) > most:
        return
    full = [np.ldexp(4.0 / (4 + line_quarters(x)[0]), line_exponents(x)[0]) for x in (a, b)]
    size = float(np.abs(a).astype(np.float64)[0] @ np.abs(b).astype(np.float64)[0])
    assert size >= k * full[0] * full[1] * 2.0 ** -(most + 1e-3)


def test_what_goes_to_float32_at_once_needs_nothing_else() -> None:
    kernel = FP32_EMULATED[0]
    assert isinstance(kernel, CudaKernel)
    assert kernel.fallback is not None and kernel.passes is not None and kernel.workspace is not None
    config = kernel.resolve_config()
    for shape in ((63, 200, 300), (200, 63, 70), (129, 130, 63), (70, 80, 0), (64, 64, LARGEST_DEPTH)):
        problem = Problem(*shape, "float32")
        assert is_direct(problem) and kernel.fallback.always(problem)
        assert kernel.passes(problem, config) == ()
        assert (need := kernel.workspace(problem, config)) is not None and need.bytes == 0
    passes = kernel.passes(Problem(64, 64, 64, "float32"), config)
    assert [each.name for each in passes if each.behind] == ["emulated_lines"]
