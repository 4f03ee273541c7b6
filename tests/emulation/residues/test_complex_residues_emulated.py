"""Complex products out of remainders on the CPU under sanitizers: with the bits of the real product that each is, which
the model makes of four products of planes where the kernel makes it of three."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.numerics import Problem
from tests.emulation.programs import Compiled, Emulator
from tests.emulation.residues.runs import POISON, Found, compiled, run_all
from tests.support.kernels.products import operands
from tests.support.kernels.residues import MODULI, integers, judge, part_of_bound, product, remainders, scales_of
from worker.check.elements import core
from worker.check.views.as_real import in_blocks, real_view, signs_of

# How operands lie and whether they are conjugated, and columns of a tile.
VARIANTS = {
    "as they lie": (Problem(1, 1, 1, "complex128"), 128),
    "transposed": (Problem(1, 1, 1, "complex128", 1, True, True, conjugate_a=True, conjugate_b=True), 256),
}
Programs = Mapping[str, Compiled]


@pytest.fixture(scope="module")
def programs(emulator: Emulator, pool: Executor) -> Programs:
    under_way = {name: pool.submit(compiled, emulator, *variant) for name, variant in VARIANTS.items()}
    return {name: each.result() for name, each in under_way.items()}


def run(programs: Programs, name: str, problem: Problem, pair: tuple[Array, Array], gap: int = 0) -> Found:
    return run_all(programs[name], problem, *pair, block_n=VARIANTS[name][1], gap=gap)


def kind(name: str, m: int, n: int, k: int, batch: int = 1) -> Problem:
    return replace(VARIANTS[name][0], m=m, n=n, k=k, batch=batch)


def lines_of(problem: Problem, a: Array, b: Array) -> tuple[Array, Array]:
    """Rows and columns of the real product, by matrices."""
    of_a, of_b = core(a, transposed=problem.transpose_a), core(b, transposed=problem.transpose_b)
    blocks = in_blocks(of_b, signs_of(problem))
    return real_view(np.ascontiguousarray(of_a)), blocks.swapaxes(-1, -2)


def stored(problem: Problem, a: Array, b: Array) -> tuple[Array, Array]:
    """Of rows of A and columns of B."""
    of_a, of_b = (a.T if problem.transpose_a else a), (b if problem.transpose_b else b.T)
    return np.ascontiguousarray(of_a), np.ascontiguousarray(of_b)


def normal(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    found: Array = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return found


def assert_split_as_the_model(found: Found, planes: tuple[Array, ...], first: int) -> None:
    """`planes`: integers of the lines from `first` on."""
    for index, modulus in enumerate(MODULI[: found.moduli]):
        for plane, whole in enumerate(planes):
            at = found.planes[index, plane, first : first + len(whole)]
            np.testing.assert_array_equal(at[:, : whole.shape[1]], remainders(whole, modulus))
            assert not at[:, whole.shape[1] :].any()


@pytest.mark.parametrize("name", VARIANTS)
def test_three_products_have_the_bits_of_four(programs: Programs, name: str) -> None:
    """Lines of very different size, of zeros, of real or imaginary numbers alone, and with subnormal parts; tiles of C
    that are cut; rows that begin anywhere; more than a segment of a line."""
    sizes = (130, 67, 150) if name == "as they lie" else (67, 68, 260)
    problem, rng = kind(name, *sizes), np.random.default_rng(2)
    a, b = normal((problem.m, problem.k), rng), normal((problem.n, problem.k), rng)
    a *= np.ldexp(1.0, rng.integers(-400, 400, (problem.m, 1)))
    b *= np.ldexp(1.0, rng.integers(-400, 400, (problem.n, 1)))
    a[3], b[66], a[7, 5], a[8, :9] = 0.0, 0.0, 1e-310j, 0.0
    pair = stored(problem, a, b)
    found = run(programs, name, problem, pair, gap=1)
    (of_a,), (of_b,) = lines_of(problem, *pair)
    assert found.moduli == 14 and not found.in_float64
    rows, columns = (np.r_[0:10, count - 4 : count] for count in found.c[0].shape)
    np.testing.assert_array_equal(found.c[0][rows], product(of_a[rows], of_b, 14))
    np.testing.assert_array_equal(found.c[0][:, columns], product(of_a, of_b[columns], 14))
    assert part_of_bound(found.c[0][:8, :8], of_a[:8], of_b[:8]) < 0.25
    for operand, lines, first in (("a", a[:10], 0), ("b", b[-10:], -(-problem.m // 128) * 128 + problem.n - 10)):
        whole = integers(real_view(lines), scales_of(real_view(lines), 14))
        is_conjugate = problem.conjugate_a if operand == "a" else problem.conjugate_b
        x, y = whole[:, ::2], -whole[:, 1::2] if (operand == "b") == is_conjugate else whole[:, 1::2]
        assert_split_as_the_model(found, (x - y, x, y) if operand == "a" else (x, y - x, x + y), first)


@pytest.mark.parametrize(("binades", "count"), [(0, 14), (4, 15), (8, 16), (24, None)])
def test_as_many_moduli_as_lines_need(programs: Programs, binades: float, count: int | None) -> None:
    problem, rng = kind("as they lie", 64, 65, 70), np.random.default_rng(5)
    a, b = (normal((lines, 70), rng) * np.exp2(rng.uniform(-binades, 0, (lines, 70))) for lines in (64, 65))
    pair = stored(problem, a, b)
    (of_a,), (of_b,) = lines_of(problem, *pair)
    assert judge(of_a, of_b) == count
    found = run(programs, "as they lie", problem, pair)
    assert found.in_float64 == (count is None)
    if count is None:
        assert np.all(found.c == POISON)
        return
    assert found.moduli == count
    np.testing.assert_array_equal(found.c[0], product(of_a, of_b, count))


def test_whole_numbers_are_exact(programs: Programs) -> None:
    """Whatever cancels, in either part."""
    problem, rng = kind("as they lie", 64, 70, 100), np.random.default_rng(4)
    a, b = (rng.integers(-(2**20), 2**20, (2, lines, 100)).astype(np.float64) for lines in (64, 70))
    (real_a, imag_a), (real_b, imag_b) = a, b
    imag_a[:32], imag_b[:] = real_a[:32], real_b
    pair = stored(problem, real_a + 1j * imag_a, real_b + 1j * imag_b)
    found = run(programs, "as they lie", problem, pair)
    (of_a,), (of_b,) = lines_of(problem, *pair)
    exact = of_a @ of_b.T
    assert not found.in_float64 and (exact == 0).any()
    np.testing.assert_array_equal(found.c[0], exact)


@pytest.mark.parametrize("value", [complex(np.inf, 1), complex(1, -np.inf), complex(np.nan, 0)])
def test_what_is_not_finite_is_left_to_float64(programs: Programs, value: complex) -> None:
    """Nothing is written."""
    problem = kind("as they lie", 70, 64, 130)
    for index in (0, 1):
        pair = operands(problem, np.random.default_rng(6))
        pair[index][-1, -1] = value
        found = run(programs, "as they lie", problem, pair)
        assert found.in_float64 and np.all(found.c == POISON)


@pytest.mark.parametrize("batched", [(True, True), (False, True)])
def test_every_matrix_of_a_batch(programs: Programs, batched: tuple[bool, bool]) -> None:
    problem = replace(kind("as they lie", 64, 66, 64, 2), a_batched=batched[0], b_batched=batched[1])
    pair = operands(problem, np.random.default_rng(8))
    found = run(programs, "as they lie", problem, pair, gap=2)
    of_a, of_b = lines_of(problem, *pair)
    for item in range(2):
        expected = product(of_a[item * batched[0]], of_b[item * batched[1]], found.moduli)
        np.testing.assert_array_equal(found.c[item], expected)
