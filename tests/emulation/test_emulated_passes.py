"""What runs before and behind `fp32_emulated` on the tensor cores, on the CPU under sanitizers: digits and findings as
the model has them, tiles made as their error needs, and lines without digits in float32."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.entries.fp32_emulated import DIGITS, LINES
from kernels.model.numerics import Problem
from tests.emulation.passes import POISON, Found, Programs, compiled, lines_of, run_passes
from tests.emulation.programs import Emulator
from tests.support.kernels.emulated import Way, digits, fixed_point, line_exponents, product
from tests.support.kernels.emulated_judge import Judged, judge, logs
from tests.support.kernels.products import operands, sum_in_order

TRANSPOSES = ((False, False), (True, True), (True, False), (False, True))


@pytest.fixture(scope="module")
def programs(emulator: Emulator, pool: Executor) -> Mapping[tuple[bool, bool], Programs]:
    return dict(zip(TRANSPOSES, pool.map(lambda each: compiled(emulator, each, {}), TRANSPOSES), strict=True))


def lie_along(problem: Problem) -> tuple[bool, bool]:
    """Whether rows of A and columns of B lie along memory."""
    return not problem.transpose_a, problem.transpose_b


def assert_as_the_model(found: Found, problem: Problem, a: Array, b: Array) -> None:
    """Peaks, logs, digits and what follows, of an A of two blocks of lines, and of a B of one."""
    of_both = zip(lines_of(problem, a, b), (0, 2), lie_along(problem), strict=True)
    for (of,), first, along in of_both:
        blocks, here = -(-len(of) // LINES), slice(first * LINES, first * LINES + len(of))
        given = found.digits[first : first + blocks].reshape(blocks * LINES, -1, DIGITS)
        np.testing.assert_array_equal(np.moveaxis(given[: len(of), : problem.k], -1, 0), digits(fixed_point(of)))
        assert not given[len(of) :].any() and not given[:, problem.k :].any()
        np.testing.assert_array_equal(found.peaks[here].view(np.float32), np.abs(of).max(axis=1))
        model = logs(of, along=along)
        for logged, count, total in (
            (found.logs, model.count, model.sum),
            (found.logs_of_four, model.fours, model.sum_of_fours),
        ):
            np.testing.assert_array_equal(logged[here] >> np.uint64(36), count)
            np.testing.assert_array_equal(logged[here] & np.uint64((1 << 36) - 1), total)


def assert_judged_as_the_model(found: Found, problem: Problem, a: Array, b: Array) -> Judged:
    """Of one product: lists, ways, and the verdict."""
    (of_a,), (of_b,) = lines_of(problem, a, b)
    model = judge(of_a, of_b, along=lie_along(problem))
    assert found.in_float32 == model.in_float32
    if not model.in_float32:
        np.testing.assert_array_equal(found.listed[0], model.rows)
        np.testing.assert_array_equal(found.listed[1], model.columns)
        assert found.ways == model.ways
    return model


@pytest.mark.parametrize("transposes", TRANSPOSES, ids=str)
@pytest.mark.parametrize("gap", [0, 3, 4])
def test_digits_are_the_model_s(
    programs: Mapping[tuple[bool, bool], Programs], transposes: tuple[bool, bool], gap: int
) -> None:
    problem = Problem(130, 67, 150, "float32", 1, *transposes)
    a, b = operands(problem, np.random.default_rng(gap), "wide")
    a.reshape(-1)[:20] = 0.0
    a.reshape(-1)[20:60] *= np.float32(2.0**-140)
    assert_as_the_model(run_passes(programs[transposes], problem, a, b, gap, always=True), problem, a, b)


@pytest.mark.parametrize("transposes", [(False, False), (True, False)], ids=str)
def test_scales_between_powers_of_two_are_the_model_s(
    programs: Mapping[tuple[bool, bool], Programs], transposes: tuple[bool, bool]
) -> None:
    """Lines whose largest elements lie anywhere between two powers of two, one of them subnormal and one of zeros."""
    problem, rng = Problem(130, 67, 150, "float32", 1, *transposes), np.random.default_rng(8)
    a, b = operands(problem, rng, "wide")
    of_rows = a.T if transposes[0] else a
    of_rows[:] = np.sign(of_rows) * rng.uniform(0, 1, of_rows.shape) * np.exp2(rng.uniform(-3, 3, (130, 1)))
    of_rows[7], of_rows[8] = 0.0, of_rows[8] * 2.0**-140
    of_rows[9, 3] = np.finfo(np.float32).max
    assert_as_the_model(run_passes(programs[transposes], problem, a, b, always=True), problem, a, b)


def test_halves_are_rounded_away_from_zero_and_what_is_next_to_them_is_not(
    programs: Mapping[tuple[bool, bool], Programs],
) -> None:
    """Of either sign, at every size that has halves; lines' largest elements in reach of subnormal numbers and of the
    end of the range."""
    whole = np.concatenate([np.arange(8), 2.0 ** np.arange(3, 23), 2.0 ** np.arange(3, 23) - 1])
    halves = np.resize((whole + 0.5).astype(np.float32), 64)
    each = np.concatenate([halves, np.nextafter(halves, 0, dtype="f"), np.nextafter(halves, np.float32(np.inf))])
    for power in (0, -148, 97, -60, 60):
        lines = np.tile(np.concatenate([each, -each]), (128, 1))
        lines[:, 0] = 0x7F000000  # so near to the largest q that an element is its q
        a = np.ldexp(lines, power).astype(np.float32)
        problem = Problem(128, 128, a.shape[1], "float32")
        pair = a[np.newaxis], np.ascontiguousarray(a.T)[np.newaxis]
        found = run_passes(programs[False, False], problem, *pair, always=True)
        true = digits(fixed_point(a))
        for block in (0, 1):
            np.testing.assert_array_equal(np.moveaxis(found.digits[block], -1, 0), true)


SCALES = np.ldexp(np.float32(1), np.arange(-32, 32).repeat(2)).astype(np.float32)


@pytest.mark.parametrize(
    ("k", "kind", "way"),
    [
        (2048, "normal", "six"),
        (2048, "uniform", "six"),
        (1024, "normal", "eight"),
        (64, "normal", "ten"),
        (2048, "half zeros", "ten"),
        (2048, "log-normal", "ten"),
        (2048, "10 times in a column", "ten"),
        (2048, "40 binades", None),
        (2048, "far apart along k", None),
        (2048, "zeros meet zeros", None),
        (2048, "rows and columns far apart", "six"),
    ],
)
def test_a_tile_takes_what_its_error_needs(
    programs: Mapping[tuple[bool, bool], Programs], k: int, kind: str, way: Way | None
) -> None:
    """None: the whole product is left to float32. What it takes is no further off than float32 sums are."""
    problem = Problem(128, 128, k, "float32")
    a, b = pair_of(kind, k, np.random.default_rng(3))
    found = run_passes(programs[False, False], problem, a, b)
    judged = assert_judged_as_the_model(found, problem, a, b)
    assert found.in_float32 == (way is None)
    if way is None:
        assert np.all(found.c == POISON)
        return
    assert found.ways == [way]
    rows, columns = (np.setdiff1d(np.arange(128), listed) for listed in (judged.rows, judged.columns))
    a, b = a[rows], b[:, columns]
    true = a.astype(np.float64) @ b.astype(np.float64)
    of_rows, of_columns = (np.linalg.norm(x.astype(np.float64), axis=axis) for x, axis in ((a, 1), (b, 0)))
    size = of_rows[:, np.newaxis] * of_columns
    off, granted = (np.linalg.norm((c - true) / size) for c in (product(a, b.T, way), sum_in_order(a, b)))
    assert off <= granted


def pair_of(kind: str, k: int, rng: np.random.Generator) -> tuple[Array, Array]:
    problem = Problem(128, 128, k, "float32")
    a, b = operands(problem, rng, "uniform" if kind == "uniform" else "normal")
    if kind.endswith("binades"):
        half = int(kind.split()[0]) / 2
        a, b = (np.ldexp(x, np.rint(rng.uniform(-half, half, x.shape)).astype(int)).astype(np.float32) for x in (a, b))
    elif kind == "log-normal":
        a, b = (np.exp(x) for x in (a, b))
    elif kind == "half zeros":
        a = np.maximum(a, 0)
    elif kind == "zeros meet zeros":
        a, b = np.maximum(a, 0), np.maximum(b, 0)
    elif kind.startswith("10 times"):
        a[:, 7] *= 10
        b[7] = 0
    elif kind == "far apart along k":
        a, b = a * np.resize(SCALES[44:84], k), b / np.resize(SCALES[44:84], k)[:, np.newaxis]
    elif kind.startswith("rows"):
        a, b = a * SCALES[:, np.newaxis], b * SCALES
    return a, b


def test_few_lines_without_digits_are_multiplied_apart(programs: Mapping[tuple[bool, bool], Programs]) -> None:
    """By the rules of IEEE, however operands lie; nothing else is written."""
    for index, transposes in enumerate(TRANSPOSES):
        problem = Problem(300, 200, 1000, "float32", 1, *transposes)
        a, b = operands(problem, np.random.default_rng(4))
        (of_a,), (of_b,) = (x.copy() for x in lines_of(problem, a, b))
        of_a[5, 7], of_a[130, 0], of_b[131, 3], of_b[140, 999] = np.nan, np.inf, -np.inf, np.inf
        of_a[7] *= np.float32(2.0**-30)
        of_a[7, 8], of_a[9] = 1.0, of_a[9] * 2.0**-126
        a, b = (of_a.T if transposes[0] else of_a), (of_b if transposes[1] else of_b.T)
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        found = run_passes(programs[transposes], problem, a, b, gap=index, order=index)
        judged = assert_judged_as_the_model(found, problem, a, b)
        assert judged.rows.tolist() == [5, 7, 9, 130] and judged.columns.tolist() == [131, 140]
        (c,), made = found.c, np.zeros((300, 200), bool)
        made[judged.rows], made[:, judged.columns] = True, True
        np.testing.assert_array_equal(c != POISON, made)
        with np.errstate(invalid="ignore"):
            true = of_a.astype(np.float64) @ of_b.T
        for test in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(test(c)[made], test(true)[made])
        with np.errstate(invalid="ignore"):
            size = np.sqrt(1000) * 2.0**-24 * np.abs(of_a).astype(np.float64) @ np.abs(of_b.T)
            finite = made & np.isfinite(true)
            assert np.all(np.abs(c - true)[finite] <= size[finite] + 2.0**-149)


@pytest.mark.parametrize("count", [1, 8, 9, 33])
def test_listed_lines_are_summed_alike_however_many_there_are(
    programs: Mapping[tuple[bool, bool], Programs], count: int
) -> None:
    """In eight parts of k, one after the other; so an element of a listed row and a listed column has but one value."""
    problem = Problem(1056, 70, 150, "float32")
    a, b = operands(problem, np.random.default_rng(9))
    rows = np.arange(1056)[:: 1056 // count][:count]
    a[rows, 3] = np.float32(2**40)
    b[9, 11] = np.float32(2**40)
    found = run_passes(programs[False, False], problem, a, b)
    assert found.listed[0].tolist() == rows.tolist() and found.listed[1].tolist() == [11]
    part, total = 32, None
    for first in range(0, 150, part):
        own = np.zeros((1056, 70), np.float32)
        for step in range(first, min(first + part, 150)):
            exact = a[:, step, np.newaxis].astype(np.float64) * b[np.newaxis, step]
            own = (own + exact).astype(np.float32)  # fused: the product is exact, but for a second rounding at times
        total = own if total is None else total + own
    (c,) = found.c
    assert total is not None
    for given, expected in ((c[rows], total[rows]), (c[:, 11], total[:, 11])):
        np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_many_lines_without_digits_leave_the_whole_to_float32(
    programs: Mapping[tuple[bool, bool], Programs],
) -> None:
    """One more than are listed; of two operands each has its own share. No digits are written then."""
    problem = Problem(320, 130, 100, "float32")
    a, b = operands(problem, np.random.default_rng(10))
    a[:10, 5] = np.inf
    assert not run_passes(programs[False, False], problem, a, b).in_float32
    a[10, 5] = np.nan
    found = run_passes(programs[False, False], problem, a, b)
    assert found.in_float32 and np.all(found.c == POISON)
    assert_judged_as_the_model(found, problem, a, b)


def test_what_is_judged_does_not_depend_on_the_order_of_threads(
    programs: Mapping[tuple[bool, bool], Programs],
) -> None:
    problem = Problem(200, 140, 300, "float32")
    a, b = operands(problem, np.random.default_rng(11), "wide")
    a[3] *= np.exp2(np.linspace(-20, 20, 300)).astype(np.float32)
    first, *others = (run_passes(programs[False, False], problem, a, b, order=order) for order in (0, 1, 9))
    for other in others:
        np.testing.assert_array_equal(other.c, first.c)
        np.testing.assert_array_equal(other.spreads, first.spreads)
        assert other.ways == first.ways


@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
def test_every_matrix_of_a_batch_has_its_own(
    programs: Mapping[tuple[bool, bool], Programs], batched: tuple[bool, bool]
) -> None:
    problem = Problem(70, 140, 100, "float32", 3, False, False, *batched)
    a, b = operands(problem, np.random.default_rng(6))
    if batched[0]:
        a[1, 3, 4] = np.inf
    else:
        b[1, 3, 4] = np.inf
    found = run_passes(programs[False, False], problem, a, b, gap=1)
    assert [one.tolist() for one in found.listed] == (
        [[], [3], [], *([[]] * (3 if batched[1] else 1))] if batched[0] else [[], [], [4], []]
    )
    assert set(found.ways) == {"ten"}
    made = found.c != POISON
    expected = np.zeros_like(made)
    if batched[0]:
        expected[1, 3] = True
    else:
        expected[1, :, 4] = True
    np.testing.assert_array_equal(made, expected)
    of_a, of_b = lines_of(problem, a, b)
    first_b = len(of_a)  # blocks of A's matrices, each of one, lie before B's, each of two
    for item, lines in enumerate(of_a):
        if np.isfinite(lines).all():
            given = np.moveaxis(found.digits[item, :70, :100], -1, 0)
            np.testing.assert_array_equal(given, digits(fixed_point(lines)))
    for item, lines in enumerate(of_b):
        given = found.digits[first_b + 2 * item : first_b + 2 * item + 2].reshape(2 * LINES, -1, DIGITS)[:140, :100]
        finite = np.isfinite(lines).all(axis=1)
        np.testing.assert_array_equal(np.moveaxis(given[finite], -1, 0), digits(fixed_point(lines[finite])))
        assert not given[~finite].any()


def test_exponents_of_the_model_hold_at_the_ends_of_the_range() -> None:
    assert line_exponents(np.array([[3.4028235e38], [1e-45], [0.0]], np.float32)).tolist() == [129, -148, 0]
