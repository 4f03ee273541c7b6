"""`fp64_emulated` and its passes on the CPU under sanitizers: integers, remainders and what is judged as the model has
it, and products to the last bit. Matrix instructions and bulk copies come as late as they may."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.numerics import Problem
from tests.emulation.programs import Compiled, Emulator
from tests.emulation.residues.runs import POISON, Found, compiled, run_all
from tests.support.kernels.products import operands
from tests.support.kernels.residues import (
    COUNTS,
    MODULI,
    integers,
    judge,
    line_of,
    part_of_bound,
    product,
    remainders,
    scales_of,
)
from worker.check.elements import core

# How operands lie, and columns of a tile: rows of A and columns of B along memory and across it.
VARIANTS = {"as they lie": ((False, False), 128), "transposed": ((True, True), 256)}
Programs = Mapping[str, Compiled]


@pytest.fixture(scope="module")
def programs(emulator: Emulator, pool: Executor) -> Programs:
    under_way = {
        name: pool.submit(compiled, emulator, kind(name, 1, 1, 1), block_n) for name, (_, block_n) in VARIANTS.items()
    }
    return {name: each.result() for name, each in under_way.items()}


def run(programs: Programs, name: str, problem: Problem, pair: tuple[Array, Array], gap: int = 0) -> Found:
    return run_all(programs[name], problem, *pair, block_n=VARIANTS[name][1], gap=gap)


def kind(name: str, m: int, n: int, k: int, batch: int = 1) -> Problem:
    (transpose_a, transpose_b), _ = VARIANTS[name]
    return Problem(m, n, k, "float64", batch, transpose_a, transpose_b)


def pair_of(problem: Problem, a: Array, b: Array) -> tuple[Array, Array]:
    """As they are stored, of lines."""
    of_a, of_b = (a.T if problem.transpose_a else a), (b if problem.transpose_b else b.T)
    return np.ascontiguousarray(of_a), np.ascontiguousarray(of_b)


def lines_of(problem: Problem, a: Array, b: Array) -> tuple[Array, Array]:
    """Rows of A and columns of B, by matrices."""
    of_a, of_b = core(a, transposed=problem.transpose_a), core(b, transposed=problem.transpose_b)
    return of_a, of_b.swapaxes(-1, -2)


def assert_split_as_the_model(found: Found, lines: Array, first: int) -> None:
    """Of a matrix whose lines are counted from `first` on; what lies beyond it is zero."""
    count, (rows, depth) = found.moduli, lines.shape
    scales = [(int(power), int(quarters)) for power, quarters in found.scales[count - COUNTS[0], first : first + rows]]
    assert scales == scales_of(lines, count)
    whole = integers(lines, scales)
    for plane, modulus in zip(found.planes[:count, 0, first : first + rows], MODULI, strict=False):
        np.testing.assert_array_equal(plane[:, :depth], remainders(whole, modulus))
        assert not plane[:, depth:].any()


@pytest.mark.parametrize("name", VARIANTS)
def test_products_to_the_last_bit(programs: Programs, name: str) -> None:
    """Lines of very different size, of zeros, and with subnormal numbers; tiles of C that are cut; rows that begin
    anywhere."""
    problem, rng = kind(name, 130, 67 if name == "as they lie" else 261, 150), np.random.default_rng(2)
    a, b = (rng.standard_normal((lines, problem.k)) for lines in (problem.m, problem.n))
    a *= np.ldexp(1.0, rng.integers(-400, 400, (problem.m, 1)))
    b *= np.ldexp(1.0, rng.integers(-400, 400, (problem.n, 1)))
    a[3], b[66], a[7, 5], a[8, :9] = 0.0, 0.0, 1e-310, 0.0
    a[9] = -np.abs(a[9])
    found = run(programs, name, problem, pair_of(problem, a, b), gap=1)
    assert found.moduli == 14 and not found.in_float64
    assert_split_as_the_model(found, a, 0)
    assert_split_as_the_model(found, b, 256)
    np.testing.assert_array_equal(found.c[0], product(a, b, 14))
    assert part_of_bound(found.c[0][:20, :20], a[:20], b[:20]) < 0.25


def test_products_at_the_ends_of_the_range(programs: Programs) -> None:
    """Each product overflows, or not; underflows, or not; by rows and columns that lie far apart."""
    problem, rng = kind("as they lie", 64, 64, 64), np.random.default_rng(3)
    a, b = (rng.uniform(0.5, 1, (64, 64)) * rng.choice([-1, 1], (64, 64)) for _ in range(2))
    a, b = (
        np.ldexp(x, powers[:, np.newaxis])
        for x, powers in ((a, np.linspace(-1000, 1023, 64).astype(int)), (b, np.linspace(1020, -1020, 64).astype(int)))
    )
    found = run(programs, "as they lie", problem, pair_of(problem, a, b))
    expected = product(a, b, found.moduli)
    assert np.isinf(expected).any() and (expected == 0).any()
    normal = (np.abs(expected) >= 2.0**-1022) | (expected == 0)
    np.testing.assert_array_equal(found.c[0][normal], expected[normal])
    np.testing.assert_allclose(found.c[0][~normal], expected[~normal], rtol=0, atol=2.0**-1074)


def test_whole_numbers_are_exact(programs: Programs) -> None:
    """Whatever cancels."""
    problem, rng = kind("as they lie", 64, 70, 100), np.random.default_rng(4)
    a, b = (rng.integers(-(2**20), 2**20, (lines, 100)).astype(np.float64) for lines in (64, 70))
    a[:, 50:], b[:, 50:] = a[:, :50], -b[:, :50]
    a[:, 0] += 1
    found = run(programs, "as they lie", problem, pair_of(problem, a, b))
    np.testing.assert_array_equal(found.c[0], a @ b.T)


def test_small_integers_that_cancel_are_exact(programs: Programs) -> None:
    """Around an element of a product of `make stress` that once was 2^-102 where it should have been 0."""
    stressed = Problem(1397, 1460, 512, "float64", 1, True, True)
    a, b = lines_of(stressed, *operands(stressed, np.random.default_rng((1039161919, 2994)), "integers"))
    a, b = a[0, :64], b[0, 1296:1361]
    problem = kind("transposed", len(a), len(b), 512)
    found = run(programs, "transposed", problem, pair_of(problem, a, b))
    exact = a @ b.T
    assert not found.in_float64 and (exact == 0).any()
    np.testing.assert_array_equal(found.c[0], exact)


@pytest.mark.parametrize(("zeros", "count"), [(0.0, 14), (0.25, 15), (0.4, 16)])
def test_whole_numbers_are_exact_by_any_number_of_moduli(programs: Programs, zeros: float, count: int) -> None:
    """Lines whose sums cancel but for little: with zeros among them, more moduli are judged enough."""
    problem, rng = kind("as they lie", 65, 66, 300), np.random.default_rng(10)
    a, b = (rng.integers(-9, 10, (lines, 300)).astype(np.float64) for lines in (65, 66))
    a[a == 0], b[b == 0] = 1.0, 1.0
    a[:, 150:], b[:, 150:] = a[:, :150], -b[:, :150]
    a[:, 0] += rng.integers(0, 2, 65)
    a[rng.random(a.shape) < zeros] = 0.0
    found = run(programs, "as they lie", problem, pair_of(problem, a, b))
    assert found.moduli == judge(a, b) == count and not found.in_float64
    np.testing.assert_array_equal(found.c[0], a @ b.T)


def spread(binades: float, m: int, n: int, k: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Elements of each line so many binades apart."""
    a, b = (rng.standard_normal((lines, k)) * np.exp2(rng.uniform(-binades, 0, (lines, k))) for lines in (m, n))
    return a, b


@pytest.mark.parametrize(("binades", "count"), [(0, 14), (4, 15), (8, 16), (24, None)])
def test_as_many_moduli_as_lines_need(programs: Programs, binades: float, count: int | None) -> None:
    problem = kind("transposed", 64, 65, 520)
    a, b = spread(binades, problem.m, problem.n, problem.k, np.random.default_rng(5))
    assert judge(a, b) == count
    found = run(programs, "transposed", problem, pair_of(problem, a, b))
    assert found.in_float64 == (count is None)
    if count is None:
        assert np.all(found.c == POISON)
        return
    assert found.moduli == count
    np.testing.assert_array_equal(found.c[0], product(a, b, count))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_is_left_to_float64(programs: Programs, value: float) -> None:
    """Nothing is written."""
    problem = kind("as they lie", 70, 64, 130)
    for index in (0, 1):
        pair = operands(problem, np.random.default_rng(6))
        pair[index][-1, -1] = value
        found = run(programs, "as they lie", problem, pair)
        assert found.in_float64 and np.all(found.c == POISON)
        assert len(np.unique(found.planes)) == 1  # what memory held before


@pytest.mark.parametrize("name", VARIANTS)
def test_segments_as_the_model(programs: Programs, name: str) -> None:
    """Norms are found no smaller, and hardly larger; all else to the last bit. Longer lines than a segment, and a
    product that is left to float64, so that nothing else is done."""
    problem, rng = kind(name, 64, 65, 1100), np.random.default_rng(7)
    a, b = spread(60, problem.m, problem.n, problem.k, rng)
    a[1], a[2, :512] = 0.0, 0.0
    found = run(programs, name, problem, pair_of(problem, a, b), gap=1)
    assert found.in_float64
    for lines, first in ((a, 0), (b, 128)):
        for line, segments in zip(lines, found.segments[first:], strict=False):
            if (model := line_of(line)) is None:
                assert all(segments["exponent"] < -2000)
                continue
            assert max(segments["exponent"]) == model.exponent and sum(segments["count"]) == model.count
            logs = segments["log"].sum(dtype=np.int64) / 16 - model.count * (1023 + model.exponent)
            assert logs == model.logs
            squares = (segments["squares"] * np.exp2(2.0 * (segments["exponent"] - model.exponent))).sum()
            assert model.squares * (1 - 2.0**-18) <= squares <= model.squares * (1 + 2.0**-15)


@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
def test_every_matrix_of_a_batch(programs: Programs, batched: tuple[bool, bool]) -> None:
    problem = replace(kind("as they lie", 64, 66, 64, 2), a_batched=batched[0], b_batched=batched[1])
    a, b = operands(problem, np.random.default_rng(8))
    found = run(programs, "as they lie", problem, (a, b), gap=1)
    of_a, of_b = lines_of(problem, a, b)
    for item in range(2):
        expected = product(of_a[item * batched[0]], of_b[item * batched[1]], found.moduli)
        np.testing.assert_array_equal(found.c[item], expected)


def test_the_order_of_threads_changes_no_bit(programs: Programs) -> None:
    problem = kind("as they lie", 70, 130, 140)
    pair = operands(problem, np.random.default_rng(9), "wide")
    of = partial(run_all, programs["as they lie"], problem, *pair)
    first, *others = (of(order=order) for order in (0, 1, 9))
    for other in others:
        np.testing.assert_array_equal(other.c, first.c)
        np.testing.assert_array_equal(other.segments[:70], first.segments[:70])
