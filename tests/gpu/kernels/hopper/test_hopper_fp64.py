"""`hopper_fp64` on a real Hopper GPU: its ring, its fragments, edges of boxes and of tiles, and operands that are moved
before.

Small integers make every sum exact, so products are compared to the last bit.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.numerics import Problem
from tests.gpu.products import assert_exact_by, compile_all, multiply
from tests.support.kernels.catalogue import config_id
from tests.support.kernels.products import assert_right, in_float64, operands

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

NAME = "hopper_fp64"
CONFIGS = list(BY_NAME[NAME].configs())
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
# Inside, at and past the edges of boxes, warps and tiles; rows of an odd and of an even number of elements.
SHAPES = [(1, 1, 1), (63, 65, 33), (129, 257, 65), (288, 512, 192), (255, 511, 201), (385, 769, 193)]
assert_exact = partial(assert_exact_by, NAME)


@pytest.fixture(scope="module", autouse=True)
def compiled(session_runner: CudaRunner) -> None:
    """Skips on a device without these instructions; compiles everything that these tests run, by all cores."""
    reason = BY_NAME[NAME].unsupported_because(session_runner.device.traits)
    if reason is not None:
        pytest.skip(reason)
    compile_all(session_runner, [(NAME, config, Problem(1, 1, 1, "float64")) for config in CONFIGS])


@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_configs(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    for index, (m, n, k) in enumerate(SHAPES):
        assert_exact(runner, Problem(m, n, k, "float64"), rng, config)
        assert_exact(runner, Problem(m, n, k, "float64", 1, *TRANSPOSES[index % 4]), rng, config)


@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_products_shorter_and_longer_than_the_ring(
    runner: CudaRunner, config: TileConfig, rng: np.random.Generator
) -> None:
    step, stages = config["block_k"], config["stages"]
    depths = {0, 1, 8, *(step * tiles + more for tiles in (1, stages - 1, stages, 2 * stages) for more in (-1, 0, 1))}
    for k in sorted(depths):
        assert_exact(runner, Problem(136, 264, k, "float64"), rng, config)


@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_normal_numbers_are_rounded_like_float64(
    runner: CudaRunner, transposes: tuple[bool, bool], rng: np.random.Generator
) -> None:
    """And the same each time."""
    for m, n, k in SHAPES:
        problem = Problem(m, n, k, "float64", 1, *transposes)
        a, b = operands(problem, rng)
        first, *others = (multiply(runner, NAME, problem, a, b, rng)[0] for _ in range(3))
        assert_right(problem, a, b, first)
        for other in others:
            np.testing.assert_array_equal(other, first, err_msg=str(problem))


@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[-1]], ids=config_id)
def test_what_pads_a_tile_never_meets_an_infinity(
    runner: CudaRunner, config: TileConfig, rng: np.random.Generator
) -> None:
    for m, n, k in ((70, 75, 37), (72, 136, 40), (129, 257, 65)):
        problem = Problem(m, n, k, "float64")
        a, b = (np.where(x > 0.5, np.inf, 1.0) for x in operands(problem, rng, "uniform"))
        a.reshape(-1)[:: a.size // 3] = np.nan
        c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
        assert check.passed, (problem, check)
        np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], err_msg=str(problem))


@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
def test_batches(runner: CudaRunner, batched: tuple[bool, bool], rng: np.random.Generator) -> None:
    for m, n, k, batch in ((130, 70, 33, 5), (18, 10, 40, 3000)):
        problem = Problem(m, n, k, "float64", batch, a_batched=batched[0], b_batched=batched[1])
        assert_exact(runner, problem, rng)


@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_large_products_right_to_the_last_bit(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    """Many blocks at once, several tiles for each, full pipelines: a race would show."""
    for m, n, k in ((2048, 2048, 1024), (3001, 2047, 1031)):
        assert_exact(runner, Problem(m, n, k, "float64"), rng, config)
