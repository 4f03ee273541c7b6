"""`tensor_fp64` on a real GPU, in every config: that the hardware's fragments are what the kernel takes them for, and
where its pipeline, its copies and its stores have their edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.numerics import Problem
from tests.gpu.products import multiply, one_of_each_edge
from tests.support.kernels.catalogue import config_id
from tests.support.kernels.products import assert_right, in_float64, operands

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

NAME = "tensor_fp64"
CONFIGS = one_of_each_edge(BY_NAME[NAME].configs())
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
# A lone element; rows of an odd and of an even number of elements; inside, at and past the edges of tiles and warps.
SHAPES = [(1, 1, 1), (130, 70, 33), (33, 264, 264), (65, 33, 66), (256, 512, 192), (255, 511, 201), (257, 513, 193)]


def need_a_device_for(runner: CudaRunner, config: TileConfig) -> None:
    """Skips on one too small or too old."""
    traits, kernel = runner.device.traits, BY_NAME[NAME]
    reason = kernel.unsupported_because(traits, "float64") or kernel.misfit(config, "float64", traits)
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_every_config_right_to_the_last_bit(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    """Small integers: right to the last bit, whatever the order of the sum."""
    need_a_device_for(runner, config)
    for m, n, k in SHAPES:
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, "float64", 1, *transposes)
            a, b = operands(problem, rng, "integers")
            c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
            assert check.passed, (problem, check)
            np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], err_msg=str(problem))


@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_products_shorter_and_longer_than_the_pipeline(
    runner: CudaRunner, config: TileConfig, rng: np.random.Generator
) -> None:
    need_a_device_for(runner, config)
    step, stages = config["block_k"], config["stages"]
    depths = {0, 1, 8, *(step * tiles + more for tiles in (1, stages - 1, stages, 2 * stages) for more in (-1, 0, 1))}
    for index, k in enumerate(sorted(depths)):
        problem = Problem(136, 264, k, "float64", 1, *TRANSPOSES[index % 4])
        a, b = operands(problem, rng, "integers")
        c, _, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
        np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], err_msg=str(problem))


@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_normal_numbers_are_rounded_like_float64(
    runner: CudaRunner, transposes: tuple[bool, bool], rng: np.random.Generator
) -> None:
    for m, n, k in SHAPES:
        problem = Problem(m, n, k, "float64", 1, *transposes)
        a, b = operands(problem, rng)
        c, check, _ = multiply(runner, NAME, problem, a, b, rng)
        assert_right(problem, a, b, c)
        assert check.passed, (problem, check)


@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[len(CONFIGS) // 2], CONFIGS[-1]], ids=config_id)
def test_what_pads_a_tile_never_meets_an_infinity(
    runner: CudaRunner, config: TileConfig, rng: np.random.Generator
) -> None:
    need_a_device_for(runner, config)
    for m, n, k in ((70, 75, 37), (72, 136, 40), (129, 257, 65)):
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, "float64", 1, *transposes)
            a, b = (np.where(x > 0.5, np.inf, 1.0) for x in operands(problem, rng, "uniform"))
            a.reshape(-1)[:: a.size // 3] = np.nan
            c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
            assert check.passed, (problem, check)
            np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], err_msg=str(problem))


def test_a_batch_longer_than_the_grid_is_deep(runner: CudaRunner, rng: np.random.Generator) -> None:
    """Blocks then take one product after the other through the same shared memory."""
    problem = Problem(18, 10, 40, "float64", 70_000, a_batched=True, b_batched=False)
    a, b = operands(problem, rng)
    c, check, _ = multiply(runner, NAME, problem, a, b, rng)
    assert_right(problem, a, b, c)
    assert check.passed


def test_large_products_right_to_the_last_bit(runner: CudaRunner, rng: np.random.Generator) -> None:
    """Many blocks at once, full pipelines: a race would show."""
    for m, n, k in ((2048, 2048, 2048), (2047, 2049, 2051)):
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, "float64", 1, *transposes)
            a, b = operands(problem, rng, "integers")
            c, check, _ = multiply(runner, NAME, problem, a, b, rng)
            assert check.passed, (problem, check)
            np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], err_msg=str(problem))


@pytest.mark.parametrize("config", [config for config in CONFIGS if config["resident"]], ids=config_id)
def test_waves_that_are_cut_along_k(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    """Fewer tiles than blocks, a wave and a bit, nearly two; rounded sums come out the same each time."""
    need_a_device_for(runner, config)
    for index, (m, n, k) in enumerate(((300, 520, 4001), (1536, 1536, 800), (2047, 2047, 1030))):
        problem = Problem(m, n, k, "float64", 1, *TRANSPOSES[index])
        a, b = operands(problem, rng, "integers")
        c, _, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
        np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], err_msg=str(problem))
        a, b = operands(problem, rng)
        first, *others = (multiply(runner, NAME, problem, a, b, rng, config=config)[0] for _ in range(3))
        assert_right(problem, a, b, first)
        for other in others:
            np.testing.assert_array_equal(other, first, err_msg=str(problem))
