"""`hopper_fp32` on a real Hopper GPU: its ring, edges of boxes and tiles, and tiles that are cut along k.

Small integers make every sum exact, so products are compared to the last bit.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.model.edge import MAX_EDGE
from kernels.model.entry.config import TileConfig
from kernels.model.numerics import DTypeName, Problem
from tests.gpu.products import assert_exact_by, compile_all, multiply, one_of_each_edge
from tests.support.kernels.catalogue import config_id
from tests.support.kernels.products import assert_right, in_float64, operands

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

NAME = "hopper_fp32"
DTYPE: DTypeName = "float32"
CONFIGS = one_of_each_edge(BY_NAME[NAME].configs())
BOTH: list[TileConfig] = [{"block_m": 128, "block_n": 256}, {"block_m": 128, "block_n": 128, "stages": 3}]
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
# Inside, at and past the edges of boxes, warps and tiles; thin last rows and columns; rows that begin anywhere.
SHAPES = [(1, 1, 1), (63, 65, 33), (129, 257, 65), (256, 512, 192), (255, 511, 200), (385, 769, 193), (700, 1100, 70)]
assert_exact = partial(assert_exact_by, NAME)


@pytest.fixture(scope="module", autouse=True)
def compiled(session_runner: CudaRunner) -> None:
    """Skips on a device without these instructions; compiles everything that these tests run, by all cores."""
    reason = BY_NAME[NAME].unsupported_because(session_runner.device.traits)
    if reason is not None:
        pytest.skip(reason)
    compile_all(session_runner, [(NAME, config, Problem(1, 1, 1, DTYPE)) for config in CONFIGS])


@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_configs(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    for index, (m, n, k) in enumerate(SHAPES):
        assert_exact(runner, Problem(m, n, k, DTYPE, 1, *TRANSPOSES[index % 4]), rng, config)


@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_products_shorter_and_longer_than_the_ring(
    runner: CudaRunner, config: TileConfig, rng: np.random.Generator
) -> None:
    stages, step = config["stages"], config["block_k"]
    depths = sorted({0, 1, 8, *(step * steps + more for steps in (1, stages, 2 * stages + 1) for more in (-1, 0, 1))})
    for index, k in enumerate(depths):
        assert_exact(runner, Problem(136, 264, k, DTYPE, 1, *TRANSPOSES[index % 4]), rng, config)


@pytest.mark.parametrize("config", BOTH, ids=config_id)
def test_tiles_that_are_cut(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    """One tile among all blocks, a few among all, and a turn that is nearly full after several that are."""
    for index, (m, n, k) in enumerate(((100, 200, 40_000), (300, 500, 9_001), (1025, 1025, 1025), (2049, 4000, 700))):
        assert_exact(runner, Problem(m, n, k, DTYPE, 1, *TRANSPOSES[index]), rng, config)


@pytest.mark.parametrize("config", BOTH, ids=config_id)
def test_thin_tiles(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    """Few rows and columns past the last whole tile: for blocks that have no share, for all blocks, in batches."""
    with_edge = {**config, "edge": MAX_EDGE}
    for index, (m, n, k) in enumerate(
        ((129, 264, 65), (1025, 1025, 1025), (2049, 2056, 130), (8, 5, 3), (136, 9000, 33))
    ):
        assert_exact(runner, Problem(m, n, k, DTYPE, 1, *TRANSPOSES[index % 4]), rng, with_edge)
    assert_exact(runner, Problem(133, 257, 90, DTYPE, 50, *TRANSPOSES[1], True, True), rng, with_edge)


@pytest.mark.parametrize("config", BOTH, ids=config_id)
def test_many_tiles_of_every_block(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    for index, (m, n) in enumerate(((4097, 4095), (8193, 1025), (1, 40_001), (40_001, 1))):
        assert_exact(runner, Problem(m, n, 130, DTYPE, 1, *TRANSPOSES[index]), rng, config)


def test_batches(runner: CudaRunner, rng: np.random.Generator) -> None:
    """More products than the device has multiprocessors, and fewer; an operand may serve them all."""
    for index, batched in enumerate(((True, True), (True, False), (False, True))):
        for config in BOTH:
            assert_exact(runner, Problem(130, 65, 70, DTYPE, 300, *TRANSPOSES[index], *batched), rng, config)
            assert_exact(runner, Problem(130, 65, 900, DTYPE, 7, *TRANSPOSES[index], *batched), rng, config)
    assert_exact(runner, Problem(18, 10, 40, DTYPE, 70_000, False, False, True, False), rng)


def test_rows_that_begin_anywhere(runner: CudaRunner, rng: np.random.Generator) -> None:
    """Narrow matrices lie on the device without padding: no bulk copy reaches their rows, so they are moved first."""
    for m, n, k in ((300, 7, 9), (7, 300, 31), (33, 31, 300)):
        for transposes in TRANSPOSES:
            assert_exact(runner, Problem(m, n, k, DTYPE, 1, *transposes), rng)
    assert_exact(runner, Problem(19, 5, 23, DTYPE, 3, a_batched=True, b_batched=True), rng)


def test_what_pads_a_tile_never_meets_an_infinity(runner: CudaRunner, rng: np.random.Generator) -> None:
    for m, n, k in ((70, 75, 37), (72, 136, 40), (129, 257, 65)):
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, DTYPE, 1, *transposes)
            a, b = (np.where(x > 0.5, np.inf, 1.0).astype(x.dtype) for x in operands(problem, rng, "uniform"))
            a.reshape(-1)[:: a.size // 3] = np.nan
            c, check, _ = multiply(runner, NAME, problem, a, b, rng)
            assert check.passed, (problem, check)
            np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], err_msg=str(problem))


@pytest.mark.parametrize("config", BOTH, ids=config_id)
def test_the_same_bits_every_time(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    """Pieces of a tile are added in the order of k, whichever comes last."""
    problem = Problem(1025, 1300, 2000, DTYPE)
    a, b = operands(problem, rng)
    first, _, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
    assert_right(problem, a, b, first)
    for _ in range(20):
        np.testing.assert_array_equal(multiply(runner, NAME, problem, a, b, rng, config=config)[0], first)
