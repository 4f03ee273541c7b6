"""`tensor_wmma` on a real GPU, in every config: where its pipeline, its copies and its stores have their edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.numerics import DTypeName, Problem
from tests.gpu.products import multiply
from tests.support.kernels.catalogue import config_id
from tests.support.kernels.products import assert_right, in_float64, operands, stored
from worker.check.elements import as_float64

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

NAME = "tensor_wmma"
DTYPES: tuple[DTypeName, ...] = ("float16", "bfloat16")
CONFIGS = list(BY_NAME[NAME].configs())
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
# A lone element; a row of 33 elements begins anywhere, one of 264 on a run of 16 bytes; inside, at and past tile edges.
SHAPES = [(1, 1, 1), (130, 70, 33), (33, 264, 264), (129, 257, 65), (256, 512, 192), (255, 511, 200), (257, 513, 193)]


def need_a_device_for(runner: CudaRunner, config: TileConfig, dtype: DTypeName) -> None:
    """Skips on one too small or too old."""
    traits, kernel = runner.device.traits, BY_NAME[NAME]
    reason = kernel.unsupported_because(traits, dtype) or kernel.misfit(config, dtype, traits)
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_every_config(runner: CudaRunner, config: TileConfig, dtype: DTypeName, rng: np.random.Generator) -> None:
    need_a_device_for(runner, config, dtype)
    for m, n, k in SHAPES:
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, dtype, 1, *transposes)
            a, b = operands(problem, rng)
            c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
            assert_right(problem, a, b, c)
            assert check.passed, (problem, check)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_products_shorter_and_longer_than_the_pipeline(
    runner: CudaRunner, config: TileConfig, dtype: DTypeName, rng: np.random.Generator
) -> None:
    """Small integers: right to the last bit, whatever the order of the sum."""
    need_a_device_for(runner, config, dtype)
    step, stages = config["block_k"], config["stages"]
    depths = {0, 1, 8, *(step * tiles + more for tiles in (1, stages - 1, stages, 2 * stages) for more in (-1, 0, 1))}
    for index, k in enumerate(sorted(depths)):
        problem = Problem(136, 264, k, dtype, 1, *TRANSPOSES[index % 4])
        a, b = operands(problem, rng, "integers")
        c, _, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
        np.testing.assert_array_equal(c, stored(in_float64(problem, a, b)[0], dtype), err_msg=str(problem))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_stay_in_float32(runner: CudaRunner, dtype: DTypeName, rng: np.random.Generator) -> None:
    """4096 ones: bfloat16 would stop at 256, float16 at 2048."""
    problem = Problem(130, 140, 4096, dtype)
    a, b = (stored(np.ones(shape), dtype) for shape in ((130, 4096), (4096, 140)))
    c, check, _ = multiply(runner, NAME, problem, a, b, rng)
    assert check.passed
    assert np.all(as_float64(c, dtype) == 4096)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[3], CONFIGS[-1]], ids=config_id)
def test_what_pads_a_tile_never_meets_an_infinity(
    runner: CudaRunner, config: TileConfig, dtype: DTypeName, rng: np.random.Generator
) -> None:
    for m, n, k in ((70, 75, 37), (72, 136, 40), (129, 257, 65)):
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, dtype, 1, *transposes)
            a, b = operands(problem, rng, "uniform")
            a = np.where(as_float64(a, dtype) > 0.5, stored(np.array(np.inf), dtype), stored(np.array(1.0), dtype))
            b = np.where(as_float64(b, dtype) > 0.5, stored(np.array(np.inf), dtype), stored(np.array(1.0), dtype))
            a.reshape(-1)[:: a.size // 3] = stored(np.array(np.nan), dtype)
            c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
            assert check.passed, (problem, check)
            np.testing.assert_array_equal(as_float64(c, dtype), in_float64(problem, a, b)[0], err_msg=str(problem))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_batch_longer_than_the_grid_is_deep(runner: CudaRunner, dtype: DTypeName, rng: np.random.Generator) -> None:
    """Blocks then take one product after the other through the same shared memory."""
    problem = Problem(18, 10, 40, dtype, 70_000, a_batched=True, b_batched=False)
    a, b = operands(problem, rng)
    c, check, _ = multiply(runner, NAME, problem, a, b, rng)
    assert_right(problem, a, b, c)
    assert check.passed


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_products_right_to_the_last_bit(runner: CudaRunner, dtype: DTypeName, rng: np.random.Generator) -> None:
    """Many blocks at once, full pipelines: a race would show."""
    for m, n, k in ((2048, 2048, 2048), (2047, 2049, 2050)):
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, dtype, 1, *transposes)
            a, b = operands(problem, rng, "integers")
            c, check, _ = multiply(runner, NAME, problem, a, b, rng)
            assert check.passed, (problem, check)
            np.testing.assert_array_equal(c, stored(in_float64(problem, a, b)[0], dtype), err_msg=str(problem))


def test_operands_of_more_than_2_31_elements(runner: CudaRunner, rng: np.random.Generator) -> None:
    size = 46_400  # squared it passes 2^31
    problem = Problem(size, 8, size, "float16")
    signs = np.resize(rng.integers(-1, 2, size=1_000_003, dtype=np.int8), (size, size))
    a, b = signs.astype(np.float16), np.ones((size, 8), np.float16)
    c, check, _ = multiply(runner, NAME, problem, a, b, rng)
    np.testing.assert_array_equal(c, np.repeat(signs.sum(axis=1, dtype=np.int32)[:, np.newaxis], 8, axis=1))
    assert check.passed
