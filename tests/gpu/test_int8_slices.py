"""`fp32_emulated` on a real Hopper GPU: as right as cuBLAS's float32 on every kind of data, also where digits end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.element_errors import relative_error
from benchmarks.operand_kinds import FAR, square
from kernels.catalog import BY_NAME
from kernels.kernel import TileConfig
from kernels.numerics import Problem
from tests.gpu.products import multiply
from tests.support.emulated import Way, product
from tests.support.products import assert_right, in_float64, operands
from worker.elements import core

if TYPE_CHECKING:
    from worker.cuda_runner import CudaRunner

NAME = "fp32_emulated"
# Of clusters one is enough: they change how digits are brought, and nothing else.
CONFIGS = [one for one in BY_NAME[NAME].configs() if one["cluster"] == 1 or one["least"] == 6]
EACH_CONFIG = pytest.mark.parametrize("config", CONFIGS, ids=str)
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
# On which it has been no further off than cuBLAS as a whole; docs/accuracy.md has all kinds.
KINDS = ("normal", "uniform(0, 1)", "12 binades in a row", "40 binades in a row", "cancelling halves", FAR)
# Tiles of 128 × 128 × 64, pairs of them, and parts.
SHAPES = [
    (128, 128, 64),
    (256, 384, 192),
    (64, 64, 64),
    (65, 67, 69),
    (129, 257, 65),
    (300, 301, 1000),
    (513, 100, 2048),
]
WAYS: dict[int, Way] = {6: "six", 7: "seven", 8: "eight", 10: "ten"}


# Short k takes ten products whatever is asked for, so that all of `least` would be compiled for nothing.
@pytest.mark.parametrize("config", [one for one in CONFIGS if one["least"] == 6], ids=str)
def test_shapes_and_transpositions(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    for m, n, k in SHAPES:
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, "float32", 1, *transposes)
            a, b = operands(problem, rng)
            c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
            assert_right(problem, a, b, c)
            assert check.passed, (problem, check)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2048, 4096])
def test_no_further_off_than_cublas(runner: CudaRunner, kind: str, size: int, rng: np.random.Generator) -> None:
    problem = Problem(size, size, size, "float32")
    a, b = square(kind, size, rng)
    true = a.astype(np.float64) @ b
    library, _, _ = multiply(runner, "cublas", problem, a, b, rng)
    ours, check, _ = multiply(runner, NAME, problem, a, b, rng)
    assert check.passed
    # Tiles on CUDA cores sum as cuBLAS does, in another order.
    assert relative_error(ours, true) <= relative_error(library, true) * (1.05 if kind == FAR else 1.0)


@pytest.mark.parametrize("kind", ["normal", "uniform(0, 1)", "cancelling halves"])
@pytest.mark.parametrize("size", [2049, 3073, 4097])
def test_eight_products_where_cublas_sums_k_in_parts(
    runner: CudaRunner, kind: str, size: int, rng: np.random.Generator
) -> None:
    """As it does at odd sizes: its error is about half of that of sums in the order of k. By every eighth row."""
    problem = Problem(size, size, size, "float32")
    a, b = square(kind, size, rng)
    true = a[::8].astype(np.float64) @ b.astype(np.float64)
    ours, check, _ = multiply(runner, NAME, problem, a, b, rng, config={"least": 8})
    library, _, _ = multiply(runner, "cublas", problem, a, b, rng)
    assert check.passed
    assert relative_error(ours[::8], true) <= relative_error(library[::8], true)


@pytest.mark.parametrize("shape", [(249, 131, 1041), (868, 166, 422), (246, 728, 3908), (2100, 2100, 100)], ids=str)
def test_ten_products_where_cublas_sums_many_parts_of_k_or_few_steps(
    runner: CudaRunner, shape: tuple[int, int, int], rng: np.random.Generator
) -> None:
    problem = Problem(*shape, "float32")
    a, b = operands(problem, rng)
    true = in_float64(problem, a, b)[0]
    ours, check, _ = multiply(runner, NAME, problem, a, b, rng, config={"least": 10})
    library, _, _ = multiply(runner, "cublas", problem, a, b, rng)
    assert check.passed
    assert relative_error(ours, true) <= relative_error(library, true)


@EACH_CONFIG
def test_the_fewest_products_to_the_last_bit(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    """What the model makes of the same numbers: sums of digits are exact, and there is one rounding."""
    problem = Problem(256, 128, 4096, "float32")
    a, b = operands(problem, rng, "uniform")
    c, _, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
    np.testing.assert_array_equal(c, product(a, b.T, WAYS[config["least"]]))


def test_ten_products_to_the_last_bit(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = Problem(200, 150, 100, "float32")
    a, b = operands(problem, rng)
    c, _, _ = multiply(runner, NAME, problem, a, b, rng)
    np.testing.assert_array_equal(c, product(a, b.T, "ten"))


def test_infinities_and_nan_follow_ieee(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = Problem(400, 300, 500, "float32")
    a, b = operands(problem, rng)
    a[3, 7], a[200, 1], b[5, 280], b[100, 9] = np.nan, np.inf, -np.inf, np.inf
    c, check, _ = multiply(runner, NAME, problem, a, b, rng)
    assert check.passed
    with np.errstate(invalid="ignore"):
        true = in_float64(problem, a, b)[0]
    for test in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(test(c), test(true))


@pytest.mark.parametrize(("of_a", "of_b"), [(-145, 0), (120, -120), (-70, -70), (70, 60)])
def test_the_ends_of_the_range(runner: CudaRunner, of_a: int, of_b: int, rng: np.random.Generator) -> None:
    """Subnormal numbers are kept, and a product underflows and overflows as float32 does."""
    problem = Problem(140, 130, 200, "float32")
    a = np.ldexp(rng.integers(1, 9, (140, 200)).astype(np.float32), of_a)
    b = np.ldexp(rng.integers(1, 9, (200, 130)).astype(np.float32), of_b)
    c, _, _ = multiply(runner, NAME, problem, a, b, rng)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(c, in_float64(problem, a, b)[0].astype(np.float32))


@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
def test_batches(runner: CudaRunner, batched: tuple[bool, bool], rng: np.random.Generator) -> None:
    problem = Problem(140, 260, 330, "float32", 3, False, True, *batched)
    a, b = operands(problem, rng)
    c, check, _ = multiply(runner, NAME, problem, a, b, rng)
    assert_right(problem, a, b, c)
    assert check.passed


def test_more_steps_than_an_int32_can_add_up(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = Problem(70, 80, 70_000, "float32")
    for a, b in (operands(problem, rng), (np.full((70, 70_000), -127.0, "f"), np.full((70_000, 80), -127.0, "f"))):
        c, check, _ = multiply(runner, NAME, problem, a, b, rng)
        assert check.passed
        assert relative_error(c, core(a, transposed=False)[0].astype(np.float64) @ b) < 2.0**-18


def test_the_same_bits_every_time(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = Problem(1025, 900, 1100, "float32")
    a, b = operands(problem, rng, "wide")
    first = multiply(runner, NAME, problem, a, b, rng)[0]
    for _ in range(10):
        np.testing.assert_array_equal(multiply(runner, NAME, problem, a, b, rng)[0], first)
