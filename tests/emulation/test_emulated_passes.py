"""What runs before `fp32_emulated` on the tensor cores, on the CPU under sanitizers: digits and findings as the model
has them, tiles made as their error needs, and products on CUDA cores where there are no digits."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from concurrent.futures import Executor

import numpy as np
import pytest

from jobs.matrices import Array
from kernels.entries.fp32_emulated import DIGITS, LINES
from kernels.numerics import Problem
from tests.emulation.passes import POISON, Found, Programs, compiled, lines_of, run_passes
from tests.emulation.programs import Emulator
from tests.support.emulated import Way, digits, fixed_point, line_exponents, product, spreads
from tests.support.products import operands

PASSES = ("emulated_measure", "emulated_split", "emulated_plain", "ways")
TRANSPOSES = ((False, False), (True, True), (True, False), (False, True))
EACH = list(itertools.product(TRANSPOSES, PASSES))


@pytest.fixture(scope="module")
def programs(emulator: Emulator, pool: Executor) -> Mapping[tuple[bool, bool], Programs]:
    under_way = {each: pool.submit(compiled, emulator, *each, {}) for each in EACH}
    return {transposes: {name: under_way[transposes, name].result() for name in PASSES} for transposes in TRANSPOSES}


def assert_as_the_model(found: Found, problem: Problem, a: Array, b: Array) -> None:
    """Peaks, digits and spreads of an A of two blocks of lines, and of a B of one."""
    for lines, first in zip(lines_of(problem, a, b), (0, 2), strict=True):
        (of,) = lines
        blocks = -(-len(of) // LINES)
        given = found.digits[first : first + blocks].reshape(blocks * LINES, -1, DIGITS)
        np.testing.assert_array_equal(np.moveaxis(given[: len(of), : problem.k], -1, 0), digits(fixed_point(of)))
        assert not given[len(of) :].any() and not given[:, problem.k :].any()
        peaks = found.peaks[first * LINES : first * LINES + len(of)].view(np.float32)
        np.testing.assert_array_equal(peaks, np.abs(of).max(axis=1))
        each = spreads(of)
        of_blocks = [each[at : at + LINES] for at in range(0, len(of), LINES)]
        means = [part[part > 0].mean() for part in of_blocks]
        np.testing.assert_allclose(found.spreads[first : first + blocks], means, rtol=1e-5)


@pytest.mark.parametrize("transposes", TRANSPOSES, ids=str)
@pytest.mark.parametrize("gap", [0, 3, 4])
def test_digits_are_the_model_s(
    programs: Mapping[tuple[bool, bool], Programs], transposes: tuple[bool, bool], gap: int
) -> None:
    problem = Problem(130, 67, 150, "float32", 1, *transposes)
    a, b = operands(problem, np.random.default_rng(gap), "wide")
    a.reshape(-1)[:20] = 0.0
    a.reshape(-1)[20:60] *= np.float32(2.0**-140)
    assert_as_the_model(run_passes(programs[transposes], problem, a, b, gap), problem, a, b)


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
    assert_as_the_model(run_passes(programs[transposes], problem, a, b), problem, a, b)


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
        found = run_passes(programs[False, False], problem, a[np.newaxis], np.ascontiguousarray(a.T)[np.newaxis])
        true = digits(fixed_point(a))
        for block in (0, 1):
            np.testing.assert_array_equal(np.moveaxis(found.digits[block], -1, 0), true)


SCALES = np.ldexp(np.float32(1), np.arange(-32, 32).repeat(2)).astype(np.float32)


@pytest.mark.parametrize(
    ("k", "kind", "way"),
    [
        (2048, "normal", "six"),
        (2048, "uniform", "six"),
        (512, "normal", "eight"),
        (64, "normal", "ten"),
        (2048, "12 binades", "ten"),
        (2048, "40 binades", "ten"),
        (2048, "far apart along k", None),
        (2048, "rows and columns far apart", "six"),
    ],
)
def test_a_tile_takes_what_its_error_needs(
    programs: Mapping[tuple[bool, bool], Programs], k: int, kind: str, way: Way | None
) -> None:
    """And what it takes is no further off than float32 sums are."""
    problem, rng = Problem(128, 128, k, "float32"), np.random.default_rng(3)
    a, b = operands(problem, rng, "uniform" if kind == "uniform" else "normal")
    if kind.endswith("binades"):
        half = int(kind.split()[0]) / 2
        a, b = (np.ldexp(x, np.rint(rng.uniform(-half, half, x.shape)).astype(int)).astype(np.float32) for x in (a, b))
    elif kind == "far apart along k":
        a, b = a * np.resize(SCALES[44:84], k), b / np.resize(SCALES[44:84], k)[:, np.newaxis]
    elif kind.startswith("rows"):
        a, b = a * SCALES[:, np.newaxis], b * SCALES
    (found,) = run_passes(programs[False, False], problem, a, b).ways
    assert found == way
    if way is not None:
        true = a.astype(np.float64) @ b.astype(np.float64)
        of_rows, of_columns = (np.linalg.norm(x.astype(np.float64), axis=axis) for x, axis in ((a, 1), (b, 0)))
        size = of_rows[:, np.newaxis] * of_columns
        plain = sum_in_order(a, b)
        off, granted = (np.linalg.norm((c - true) / size) for c in (product(a, b.T, way), plain))
        assert off <= granted


@pytest.mark.parametrize(
    ("least", "fewest", "spread_out"), [(7, "seven", "eight"), (8, "eight", "eight"), (10, "ten", "ten")]
)
def test_no_tile_takes_fewer_products_than_asked_for(
    programs: Mapping[tuple[bool, bool], Programs], emulator: Emulator, least: int, fewest: Way, spread_out: Way
) -> None:
    """Those that need more take more, and infinities CUDA cores."""
    asked = dict(programs[False, False], ways=compiled(emulator, (False, False), "ways", {"least": least}))
    problem = Problem(256, 256, 512, "float32")
    a, b = operands(problem, np.random.default_rng(7), "uniform")
    a[128:] = np.ldexp(a[128:], np.arange(512) % 15).astype(np.float32)
    b[0, 200] = np.inf
    assert run_passes(asked, problem, a, b).ways == [fewest, None, spread_out, None]
    assert run_passes(programs[False, False], problem, a, b).ways == ["six", None, "eight", None]


def sum_in_order(a: Array, b: Array) -> Array:
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for step in range(a.shape[1]):
        total += a[:, step, np.newaxis] * b[np.newaxis, step]
    return total


def test_lines_without_digits_make_their_tiles_plain(programs: Mapping[tuple[bool, bool], Programs]) -> None:
    """And those come out by the rules of IEEE; of the others nothing is written."""
    problem = Problem(300, 200, 1000, "float32")
    a, b = operands(problem, np.random.default_rng(4))
    a[5, 7], a[130, 0], b[3, 131], b[999, 140] = np.nan, np.inf, -np.inf, np.inf
    found = run_passes(programs[False, False], problem, a, b)
    assert [way is None for way in found.ways] == [True, True, True, True, False, True]
    (c,) = found.c
    assert np.all(c[256:, :128] == POISON)
    with np.errstate(invalid="ignore"):
        true = a.astype(np.float64) @ b.astype(np.float64)
    made = np.ones(c.shape, bool)
    made[256:, :128] = False
    for test in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(test(c)[made], test(true)[made])
    finite = made & np.isfinite(true)
    np.testing.assert_allclose(c[finite], true[finite], atol=1e-3)


@pytest.mark.parametrize("shape", [(1, 1, 1), (63, 200, 300), (200, 63, 70), (129, 130, 63), (70, 80, 0)])
def test_a_product_with_a_short_side_is_plain_whole(
    programs: Mapping[tuple[bool, bool], Programs], shape: tuple[int, int, int]
) -> None:
    for index, transposes in enumerate(TRANSPOSES):
        problem = Problem(*shape, "float32", 1, *transposes)
        a, b = operands(problem, np.random.default_rng(5), "integers")
        found = run_passes(programs[transposes], problem, a, b, gap=index)
        of_a, of_b = lines_of(problem, a, b)
        np.testing.assert_array_equal(found.c, of_a @ of_b.swapaxes(1, 2))


def test_each_of_more_tiles_than_threads_look_at_is_found(programs: Mapping[tuple[bool, bool], Programs]) -> None:
    problem = Problem(3, 2, 0, "float32", 800, False, False, True, True)
    a, b = np.zeros((800, 3, 0), np.float32), np.zeros((800, 0, 2), np.float32)
    assert not run_passes(programs[False, False], problem, a, b).c.any()


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
    blocks = np.array(found.ways, dtype=object).reshape(3, 2)
    expected = [[False, False], [True, True] if batched[0] else [True, False], [False, False]]
    assert [[way is None for way in of_item] for of_item in blocks] == expected
    assert {way for way in found.ways if way is not None} == {"ten"}
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
