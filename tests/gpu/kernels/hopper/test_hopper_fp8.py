"""8-bit floats on a real GPU: `hopper_fp8`, whose partial sums may be promoted, beside the library's two ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.formats import float8
from jobs.formats.elements import Array
from jobs.models import Verification
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.numerics import Problem
from tests.gpu.products import multiply
from tests.support.kernels.products import Data, in_float64, operands

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
WAYS: list[tuple[str, TileConfig]] = [
    ("hopper_fp8", {"promote": 1}),
    ("hopper_fp8", {"promote": 0}),
    ("cublas", NO_CONFIG),
    ("cublas_fp8_fast", NO_CONFIG),
]
EACH = pytest.mark.parametrize(("name", "config"), WAYS)
LIBRARY = pytest.mark.parametrize("name", ["cublas", "cublas_fp8_fast"])
WIDTHS = sorted({config["block_n"] for config in BY_NAME["hopper_fp8"].configs()})
KINDS: list[Data] = ["normal", "uniform", "wide"]


def product(
    runner: CudaRunner, way: tuple[str, TileConfig], problem: Problem, a: Array, b: Array, rng: np.random.Generator
) -> tuple[Array, Verification]:
    c, check, _ = multiply(runner, way[0], problem, a, b, rng, config=way[1])
    return c, check


@EACH
def test_every_number_is_accepted(runner: CudaRunner, name: str, config: TileConfig, rng: np.random.Generator) -> None:
    """A product with the identity is the other operand: subnormal numbers and the largest among them."""
    finite = np.delete(np.arange(256, dtype=np.uint8), [0x7F, 0xFF])
    given = np.resize(finite, (130, 256))
    one = float8.narrow(np.eye(256, dtype=np.float32))
    for transposed in (False, True):
        problem = Problem(130, 256, 256, "float8_e4m3", 1, False, transposed)
        c, check = product(runner, (name, config), problem, given, one, rng)
        np.testing.assert_array_equal(c, float8.widen(given))
        assert check.passed
        swapped = Problem(256, 130, 256, "float8_e4m3", 1, transposed, True)
        c, _ = product(runner, (name, config), swapped, one, given, rng)
        np.testing.assert_array_equal(c, float8.widen(given).T)


@EACH
def test_nan_stays_in_its_row_and_its_column(
    runner: CudaRunner, name: str, config: TileConfig, rng: np.random.Generator
) -> None:
    """What pads a tile, or a row of an operand, never meets it."""
    for m, n, k in ((70, 75, 37), (129, 257, 130)):
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, "float8_e4m3", 1, *transposes)
            a, b = operands(problem, rng, "integers")
            (a.T if transposes[0] else a)[5, k - 1] = 0x7F
            (b.T if transposes[1] else b)[k - 1, n - 1] = 0xFF
            c, check = product(runner, (name, config), problem, a, b, rng)
            np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], err_msg=str(problem))
            assert np.isnan(c[5]).all() and np.isnan(c[:, -1]).all() and np.isnan(c).sum() == m + n - 1
            assert check.passed


@LIBRARY
def test_any_shape_by_the_library(runner: CudaRunner, name: str, rng: np.random.Generator) -> None:
    """It wants multiples of 16; matrices lie padded with zeros."""
    for m, n, k in ((1, 1, 1), (31, 33, 17), (64, 64, 64), (255, 257, 256), (1, 1000, 77), (3000, 2, 9), (64, 65, 0)):
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, "float8_e4m3", 1, *transposes)
            a, b = operands(problem, rng, "integers")
            c, check = product(runner, (name, NO_CONFIG), problem, a, b, rng)
            np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], err_msg=str(problem))
            assert check.passed


@LIBRARY
@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
def test_batches_by_the_library(
    runner: CudaRunner, name: str, batched: tuple[bool, bool], rng: np.random.Generator
) -> None:
    for transposes in TRANSPOSES:
        problem = Problem(33, 50, 70, "float8_e4m3", 5, *transposes, *batched)
        a, b = operands(problem, rng, "integers")
        c, check = product(runner, (name, NO_CONFIG), problem, a, b, rng)
        np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], err_msg=str(problem))
        assert check.passed


def test_more_products_than_the_library_s_plans_that_are_kept(runner: CudaRunner, rng: np.random.Generator) -> None:
    from worker.cuda.library.cublas_lt import KEPT

    for m in [*range(16, 16 * (KEPT + 4), 16), 16, 32]:
        problem = Problem(m, 16, 16, "float8_e4m3")
        a, b = operands(problem, rng, "integers")
        c, _ = product(runner, ("cublas", NO_CONFIG), problem, a, b, rng)
        np.testing.assert_array_equal(c, in_float64(problem, a, b)[0])


def test_promoted_sums_hold_what_14_bits_do_not(runner: CudaRunner, rng: np.random.Generator) -> None:
    """So many ones: a sum of 14 bits would stop at 16,384."""
    problem = Problem(130, 140, 40_000, "float8_e4m3")
    a, b = (float8.narrow(np.ones(shape, np.float32)) for shape in ((130, 40_000), (40_000, 140)))
    found = {}
    for name, config in WAYS:
        c, check = product(runner, (name, config), problem, a, b, rng)
        assert check.passed, (name, check)
        found[name, *config.values()] = (float(c.min()), float(c.max()))
    print(found)
    assert found["hopper_fp8", 1] == (40_000.0, 40_000.0)


def test_tiles_of_any_width_give_the_same_bits(runner: CudaRunner, rng: np.random.Generator) -> None:
    """They add the same sums in the same order. Tiles of which one warpgroup has no rows, and thin ones, are among
    them; k ends within, with and past the stages that are multiplied at once; and many waves would show a race."""
    for m, n, k in ((130, 300, 1000), (321, 449, 1024), (193, 64, 1153), (1500, 2500, 5000), (4160, 4097, 2048)):
        problem = Problem(m, n, k, "float8_e4m3")
        a, b = operands(problem, rng, "normal")
        ways: list[tuple[str, TileConfig]] = [("hopper_fp8", {"block_n": block_n}) for block_n in WIDTHS]
        first, *others = (product(runner, way, problem, a, b, rng)[0] for way in ways)
        for other in others:
            np.testing.assert_array_equal(other, first, err_msg=str(problem))


@pytest.mark.parametrize("data", KINDS)
@pytest.mark.parametrize("size", [1024, 4096])
def test_the_error_is_no_greater_than_the_library_s(
    runner: CudaRunner, data: Data, size: int, rng: np.random.Generator
) -> None:
    """Of promoted sums beside the library's promoted ones, and of others beside its others."""
    problem = Problem(512, 512, size, "float8_e4m3")
    a, b = operands(problem, rng, data)
    true, _ = in_float64(problem, a, b)
    errors = []
    for name, config in WAYS:
        c, check = product(runner, (name, config), problem, a, b, rng)
        assert check.passed and check.residual is not None and check.threshold is not None, (name, check)
        errors.append(float(np.linalg.norm(c - true) / np.linalg.norm(true)))
        print(f"{data} {size} {name} {dict(config)}: {errors[-1]:.3g}, {check.residual / check.threshold:.3g} granted")
    promoted, plain, library, fast = errors
    assert promoted <= 1.05 * library + 1e-7
    assert plain <= 1.05 * fast + 1e-7
    assert promoted <= plain
