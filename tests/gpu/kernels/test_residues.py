"""`fp64_emulated` on a real Hopper GPU: the model's bits, every element within its class, and float64 where that is not
certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.numerics import Problem
from tests.gpu.products import multiply
from tests.support.kernels.adversarial import ADVERSARIAL, DOMINANT, worst_errors
from tests.support.kernels.products import FLOAT_DATA, Data, assert_right, in_float64, operands
from tests.support.kernels.residues import integers, judge, part_of_bound, product, scales_of

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

NAME, BEHIND = "fp64_emulated", "tensor_fp64"
CONFIGS = list(BY_NAME[NAME].configs())
EACH_CONFIG = pytest.mark.parametrize("config", CONFIGS, ids=str)
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
# Tiles, pairs of them, parts, more tiles than blocks, and sides that are too short.
SHAPES = [
    (128, 256, 128),
    (256, 512, 384),
    (64, 64, 64),
    (65, 67, 69),
    (129, 257, 129),
    (300, 301, 1000),
    (63, 500, 500),
]
LARGE = 1 << 30  # multiply-adds, from which on the host takes longer for what is true than for all else
SHAPES += [(2049, 4100, 200), (500, 100, 70_000)]


def in_long_double(a: Array, b: Array, rows: slice) -> Array:
    """Rows of A·B, with 11 bits more than float64."""
    found: Array = a[rows].astype(np.longdouble) @ b.astype(np.longdouble)
    return found


@EACH_CONFIG
def test_shapes_and_transpositions(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    """Large ones in one way for each config, and in all ways by all of them."""
    one_way = TRANSPOSES[CONFIGS.index(config) % len(TRANSPOSES)]
    for m, n, k in SHAPES:
        for transposes in TRANSPOSES if m * n * k < LARGE else [one_way]:
            problem = Problem(m, n, k, "float64", 1, *transposes)
            a, b = operands(problem, rng)
            c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
            assert_right(problem, a, b, c)
            assert check.passed, (problem, check)


@EACH_CONFIG
@pytest.mark.parametrize(("binades", "count"), [(0, 14), (4, 15), (8, 16)])
def test_the_bits_of_the_model(
    runner: CudaRunner, config: TileConfig, binades: float, count: int, rng: np.random.Generator
) -> None:
    """In parts of the product, by each number of moduli."""
    a, b = (rng.standard_normal((300, 700)) * np.exp2(rng.uniform(-binades, 0, (300, 700))) for _ in range(2))
    assert judge(a, b) == count
    c, check, _ = multiply(
        runner, NAME, Problem(300, 300, 700, "float64"), a, np.ascontiguousarray(b.T), rng, config=config
    )
    assert check.passed
    for rows, columns in ((slice(0, 20), slice(0, 20)), (slice(120, 140), slice(245, 265)), (slice(290, 300),) * 2):
        np.testing.assert_array_equal(c[rows, columns], product(a[rows], b[columns], count))


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("size", [1030, 2048])
def test_every_row_column_and_element(runner: CudaRunner, name: str, size: int, rng: np.random.Generator) -> None:
    """Of the first and last 32 rows, the worst row and column are off by at most twice what the library's are, and
    every element is within its class."""
    of_float32 = ADVERSARIAL[name](size, rng)
    a, b = (x.astype(np.float64) * (1 + 2.0**-30 * rng.standard_normal(x.shape)) for x in of_float32)
    problem = Problem(size, size, size, "float64")
    library, _, _ = multiply(runner, "cublas", problem, a, b, rng)
    ours, check, _ = multiply(runner, NAME, problem, a, b, rng)
    assert check.passed
    for rows in (slice(0, 32), slice(size - 32, size)):
        true = in_long_double(a, b, rows)
        sizes = np.abs(a[rows]) @ np.abs(b)
        granted = 4 * np.sqrt(size) * 2.0**-53 * sizes + 2.0**-53 * np.abs(true) + 2.0**-1074
        assert np.all(np.abs(ours[rows] - true) <= granted)
        of = sizes if name == DOMINANT else true.astype(np.float64)
        errors = (worst_errors((c[rows] - true).astype(np.float64), np.zeros(true.shape), of) for c in (ours, library))
        for own, others in zip(*errors, strict=True):
            assert own <= 2 * others + 2.0**-53


@pytest.mark.parametrize("data", FLOAT_DATA)
def test_data_of_every_kind(runner: CudaRunner, data: Data, rng: np.random.Generator) -> None:
    problem = Problem(520, 390, 1025, "float64")
    a, b = operands(problem, rng, data)
    c, check, _ = multiply(runner, NAME, problem, a, b, rng)
    assert check.passed
    assert_right(problem, a, b, c)
    assert part_of_bound(c[:4, :4], a[:4], b[:, :4].T) <= 1.0


@pytest.mark.parametrize("kind", ["infinity", "nan", "graded", "zeros meet zeros"])
@pytest.mark.parametrize("transposes", TRANSPOSES, ids=str)
def test_what_remainders_do_not_carry_is_tensor_fp64_s_to_the_last_bit(
    runner: CudaRunner, kind: str, transposes: tuple[bool, bool], rng: np.random.Generator
) -> None:
    problem = Problem(513, 700, 300, "float64", 1, *transposes)
    a, b = operands(problem, rng)
    if kind == "graded":
        a *= np.exp2(rng.uniform(0, 60, a.shape))
    elif kind == "zeros meet zeros":
        a, b = np.maximum(a, 0), np.maximum(b, 0)
    else:
        a[3, 7] = np.inf if kind == "infinity" else np.nan
        b[5, 9] = -np.inf
    config = BY_NAME[BEHIND].resolve_config({"edge": 0}, problem, runner.device.traits)
    ours, _, _ = multiply(runner, NAME, problem, a, b, rng)
    plain, _, _ = multiply(runner, BEHIND, problem, a, b, rng, config=config)
    np.testing.assert_array_equal(ours, plain)
    with np.errstate(invalid="ignore"):
        true = in_float64(problem, a, b)[0]
    for test in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(test(ours), test(true))


@pytest.mark.parametrize(("of_a", "of_b"), [(-1070, 60), (1000, -1000), (-520, -540), (900, 140)])
def test_the_ends_of_the_range(runner: CudaRunner, of_a: int, of_b: int, rng: np.random.Generator) -> None:
    """Subnormal numbers are kept, and products underflow and overflow as the exact sum does."""
    problem = Problem(140, 130, 200, "float64")
    a = np.ldexp(rng.integers(1, 9, (140, 200)).astype(np.float64), of_a)
    b = np.ldexp(rng.integers(1, 9, (200, 130)).astype(np.float64), of_b)
    c, _, _ = multiply(runner, NAME, problem, a, b, rng)
    with np.errstate(over="ignore"):
        exact = np.ldexp(np.ldexp(a, -of_a) @ np.ldexp(b, -of_b), of_a + of_b)
    np.testing.assert_array_equal(c, exact)


def test_whole_numbers_are_exact(runner: CudaRunner, rng: np.random.Generator) -> None:
    a, b = (rng.integers(-(2**19), 2**19, (1100, 1100)).astype(np.float64) for _ in range(2))
    c, check, _ = multiply(runner, NAME, Problem(1100, 1100, 1100, "float64"), a, b, rng)
    assert check.passed
    np.testing.assert_array_equal(c, (a.astype(np.int64) @ b.astype(np.int64)).astype(np.float64))


# Of products of `make stress`: sizes and how operands lie.
STRESSED = {
    2268: Problem(320, 2279, 144, "float64", 8, True, False, True, False),
    2664: Problem(352, 208, 3681, "float64", 1, True, False),
    2994: Problem(1397, 1460, 512, "float64", 1, True, True),
}


@EACH_CONFIG
@pytest.mark.parametrize("number", STRESSED)
def test_small_integers_that_cancel_are_exact(runner: CudaRunner, config: TileConfig, number: int) -> None:
    """Of each of these an element that should be 0 once was not."""
    problem, rng = STRESSED[number], np.random.default_rng((1039161919, number))
    a, b = operands(problem, rng, "integers")
    c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
    exact, _ = in_float64(problem, a, b)
    assert check.passed
    np.testing.assert_array_equal(c, exact.reshape(c.shape))


@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
def test_batches(runner: CudaRunner, batched: tuple[bool, bool], rng: np.random.Generator) -> None:
    problem = Problem(140, 260, 330, "float64", 3, False, True, *batched)
    a, b = operands(problem, rng)
    c, check, _ = multiply(runner, NAME, problem, a, b, rng)
    assert_right(problem, a, b, c)
    assert check.passed


def test_the_same_bits_every_time_and_in_every_config(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = Problem(1700, 2100, 700, "float64")
    a, b = operands(problem, rng)
    first = multiply(runner, NAME, problem, a, b, rng)[0]
    for turn in range(12):
        again = multiply(runner, NAME, problem, a, b, rng, config=CONFIGS[turn % len(CONFIGS)])[0]
        np.testing.assert_array_equal(again, first)


def test_lines_are_as_long_as_they_may_be(runner: CudaRunner, rng: np.random.Generator) -> None:
    """Equal lines, whose products are as large as any: no remainder is taken for another integer's."""
    line = rng.uniform(0.9, 1, 600)
    a = np.tile(line, (256, 1))
    c, _, _ = multiply(runner, NAME, Problem(256, 256, 600, "float64"), a, np.ascontiguousarray(a.T), rng)
    (whole,) = integers(line[np.newaxis], scales_of(line[np.newaxis], 14))
    assert (whole @ whole) > 2**107
    np.testing.assert_array_equal(c, np.full((256, 256), product(a[:1], a[:1], 14)[0, 0]))
