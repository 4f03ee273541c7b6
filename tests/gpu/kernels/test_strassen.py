"""`strassen` on a real GPU where it is made of seven products: halves of all lengths, batches, its class, its exits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.numerics import Problem
from tests.gpu.products import multiply
from tests.support.kernels.products import Data, in_float64, operands

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

NAME = "strassen"
CONFIGS = [config for config in BY_NAME[NAME].configs() if config["min_side"] == 64]
EACH_CONFIG = pytest.mark.parametrize("config", CONFIGS, ids=str)
LARGE = next(config for config in CONFIGS if config["block_n"] == 256)
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
SHAPES = [(64, 64, 64), (65, 67, 69), (256, 512, 128), (257, 513, 130), (300, 1030, 515), (1023, 1025, 70)]
KINDS: tuple[Data, ...] = ("normal", "uniform", "wide", "constant", "ramp", "sparse", "tiny")


def error(c: Array, true: Array) -> float:
    return float(np.linalg.norm(c - true) / np.linalg.norm(true))


@EACH_CONFIG
def test_shapes_and_transpositions_to_the_last_bit(
    runner: CudaRunner, config: TileConfig, rng: np.random.Generator
) -> None:
    for m, n, k in SHAPES:
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, "float32", 1, *transposes)
            a, b = operands(problem, rng, "integers")
            c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
            np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], str(problem))
            assert check.passed, (problem, check)


@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
def test_batches(runner: CudaRunner, batched: tuple[bool, bool], rng: np.random.Generator) -> None:
    problem = Problem(140, 261, 330, "float32", 3, False, True, *batched)
    a, b = operands(problem, rng, "integers")
    c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=LARGE)
    np.testing.assert_array_equal(c, in_float64(problem, a, b)[0])
    assert check.passed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [512, 2047])
def test_every_kind_of_data_passes_the_check_of_its_class(
    runner: CudaRunner, kind: Data, size: int, rng: np.random.Generator
) -> None:
    problem = Problem(size, size, size, "float32")
    a, b = operands(problem, rng, kind)
    c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=LARGE)
    assert check.passed, check
    if kind == "normal":  # 1.41 is expected
        ordinary, _, _ = multiply(runner, "pipelined", problem, a, b, rng)
        true = in_float64(problem, a, b)[0]
        assert 1.0 < error(c, true) / error(ordinary, true) < 2.0


@pytest.mark.parametrize("what", ["infinity", "nan", "large"])
def test_what_halves_cannot_carry_comes_out_as_pipelined_makes_it(
    runner: CudaRunner, what: str, rng: np.random.Generator
) -> None:
    problem = Problem(520, 300, 700, "float32")
    a, b = operands(problem, rng)
    if what == "large":
        a, b = a * np.float32(2e17), b * np.float32(2e17)
    else:
        a[519, 3] = np.inf if what == "infinity" else np.nan
    same = {p.name: LARGE[p.name] for p in BY_NAME["pipelined"].parameters}
    expected, _, _ = multiply(runner, "pipelined", problem, a, b, rng, config=same)
    c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=LARGE)
    np.testing.assert_array_equal(c, expected)
    assert check.passed


def test_the_same_bits_every_time(runner: CudaRunner, rng: np.random.Generator) -> None:
    """Whichever of a tile's seven blocks comes last."""
    problem = Problem(1025, 900, 1100, "float32")
    a, b = operands(problem, rng)
    first = multiply(runner, NAME, problem, a, b, rng, config=LARGE)[0]
    for _ in range(10):
        np.testing.assert_array_equal(multiply(runner, NAME, problem, a, b, rng, config=LARGE)[0], first)


def test_a_large_product_without_a_config(runner: CudaRunner, rng: np.random.Generator) -> None:
    """By halves of its own accord."""
    problem = Problem(3074, 3100, 3073, "float32")
    a, b = operands(problem, rng, "integers")
    c, check, _ = multiply(runner, NAME, problem, a, b, rng)
    np.testing.assert_array_equal(c, in_float64(problem, a, b)[0])
    assert check.passed
