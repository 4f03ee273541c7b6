"""Complex products out of remainders on a real Hopper GPU: the bits of the real product that each is, in every way that
operands may lie, and float64 where that is not certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.numerics import Problem
from tests.gpu.products import multiply
from tests.support.kernels.products import FLOAT_DATA, Data, assert_right, operands
from tests.support.kernels.residues import judge, product
from worker.check.elements import core
from worker.check.views.as_real import in_blocks, real_view, signs_of
from worker.cpu import blas as cpu_blas

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

NAME, EMULATED = "complex_as_real", {"emulated": 1}
TURNS = ["0000", "1010", "0101", "1101", "0011", "1111"]  # A and B transposed, A and B conjugated
# Tiles, pairs of them, parts, more tiles than blocks, and sides that are too short.
SHAPES = [
    (128, 256, 128),
    (64, 64, 64),
    (129, 257, 129),
    (300, 301, 700),
    (63, 100, 100),
    (33, 17, 29),
    (70, 65, 33_000),
]
LARGE = (1601, 2050, 200)


def kind(size: tuple[int, int, int], turns: str) -> Problem:
    transpose_a, transpose_b, conjugate_a, conjugate_b = (turn == "1" for turn in turns)
    return Problem(*size, "complex128", 1, transpose_a, transpose_b, False, False, conjugate_a, conjugate_b)


def lines_of(problem: Problem, a: Array, b: Array) -> tuple[Array, Array]:
    """Rows and columns of the real product."""
    (of_a,), (of_b,) = core(a, transposed=problem.transpose_a), core(b, transposed=problem.transpose_b)
    return real_view(np.ascontiguousarray(of_a)), in_blocks(of_b[np.newaxis], signs_of(problem))[0].T


@pytest.mark.parametrize("turns", TURNS)
def test_every_way_of_operands(runner: CudaRunner, rng: np.random.Generator, turns: str) -> None:
    for size in (*SHAPES, LARGE):
        problem = kind(size, turns)
        a, b = operands(problem, rng)
        c, check, measured = multiply(runner, NAME, problem, a, b, rng, config=EMULATED)
        assert check.passed and measured.kernel_ms > 0, problem
        assert_right(problem, a, b, c)


@pytest.mark.parametrize("turns", TURNS[:4])
@pytest.mark.parametrize(("binades", "count"), [(0, 14), (4, 15), (8, 16)])
def test_the_bits_of_the_model(
    runner: CudaRunner, rng: np.random.Generator, turns: str, binades: float, count: int
) -> None:
    problem = kind((300, 280, 350), turns)
    a, b = (x * np.exp2(rng.uniform(-binades, 0, x.shape)) for x in operands(problem, rng))
    of_a, of_b = lines_of(problem, a, b)
    assert judge(of_a, of_b) == count
    c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=EMULATED)
    assert check.passed
    numbers = real_view(c)
    for rows, columns in ((slice(0, 16), slice(0, 16)), (slice(120, 136), slice(500, 516)), (slice(290, 300),) * 2):
        np.testing.assert_array_equal(numbers[rows, columns], product(of_a[rows], of_b[columns], count))


@pytest.mark.parametrize("data", FLOAT_DATA)
def test_data_of_every_kind(runner: CudaRunner, rng: np.random.Generator, data: Data) -> None:
    problem = kind((390, 260, 513), "0110")
    a, b = operands(problem, rng, data)
    c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=EMULATED)
    assert check.passed
    assert_right(problem, a, b, c)


@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
def test_batches(runner: CudaRunner, rng: np.random.Generator, batched: tuple[bool, bool]) -> None:
    problem = Problem(130, 140, 150, "complex128", 3, True, False, *batched, True, False)
    a, b = operands(problem, rng)
    c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=EMULATED)
    assert check.passed
    assert_right(problem, a, b, c)


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("what", ["infinities", "graded"])
def test_what_remainders_do_not_carry_is_left_to_float64(
    runner: CudaRunner, rng: np.random.Generator, turns: str, what: str
) -> None:
    """An infinite part leaves the other as it is."""
    problem = kind((257, 130, 200), turns)
    a, b = operands(problem, rng)
    if what == "graded":
        a *= np.exp2(rng.uniform(0, 60, a.shape))
    else:
        a[3, 7], a[5, 8], b[9, 11] = complex(np.inf, 1), complex(2, np.nan), complex(0.5, -np.inf)
    c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=EMULATED)
    assert check.passed
    true = cpu_blas.multiply(problem, a, b)
    for test in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(test(real_view(c)), test(real_view(true)))
    if what == "graded":
        assert_right(problem, a, b, c)
