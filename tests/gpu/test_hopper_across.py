"""`hopper_tf32` with B as it lies: what test_hopper.py asks of a config that suits, asked of its smallest tiles and
of its largest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.kernel import TileConfig
from kernels.numerics import Problem
from tests.gpu.products import multiply
from tests.gpu.test_hopper import assert_exact, infinities
from tests.support.products import Data, in_float64, operands

if TYPE_CHECKING:
    from worker.cuda_runner import CudaRunner

NAME = "hopper_tf32"
KERNEL = BY_NAME[NAME]
SMALL, LARGE = (
    KERNEL.resolve_config({"block_n": block_n, "stages": stages, "cluster": cluster})
    for block_n, stages, cluster in ((64, 3, 1), (256, 4, 2))
)
CONFIGS = pytest.mark.parametrize("config", [SMALL, LARGE], ids=["small", "large"])


@CONFIGS
def test_many_turns_of_every_block(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    for m, n in ((4097, 4095), (4096, 4097), (8193, 1025), (1, 40_001), (40_001, 1)):
        assert_exact(runner, NAME, Problem(m, n, 130, "float32"), rng, config)


@CONFIGS
def test_batches(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    for batched in ((True, True), (True, False), (False, True)):
        problem = Problem(130, 65, 70, "float32", 300, a_batched=batched[0], b_batched=batched[1])
        assert_exact(runner, NAME, problem, rng, config)
    assert_exact(runner, NAME, Problem(18, 10, 40, "float32", 70_000, a_batched=True), rng, config)


@CONFIGS
def test_rows_that_begin_anywhere(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    for m, n, k in ((300, 7, 9), (7, 300, 31), (33, 31, 300)):
        for transpose_a in (False, True):
            assert_exact(runner, NAME, Problem(m, n, k, "float32", 1, transpose_a), rng, config)


@CONFIGS
def test_what_pads_a_tile_never_meets_an_infinity(
    runner: CudaRunner, config: TileConfig, rng: np.random.Generator
) -> None:
    for m, n, k in ((70, 75, 37), (136, 72, 40), (257, 129, 65)):
        problem = Problem(m, n, k, "float32")
        a, b = (infinities(each, "float32") for each in operands(problem, rng, "uniform"))
        c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
        assert check.passed, (problem, check)
        np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], err_msg=str(problem))


@pytest.mark.parametrize("data", ["normal", "uniform", "wide"])
def test_the_bits_are_those_of_b_along_k(runner: CudaRunner, data: Data, rng: np.random.Generator) -> None:
    """The same products are added in the same order, whichever operand comes first."""
    problem = Problem(1500, 1300, 2000, "float32")
    a, b = operands(problem, rng, data)
    across, _, _ = multiply(runner, NAME, problem, a, b, rng, config=LARGE)
    turned = replace(problem, transpose_b=True)
    along, _, _ = multiply(runner, NAME, turned, a, np.ascontiguousarray(b.T), rng, config=LARGE)
    np.testing.assert_array_equal(across, along)


def test_the_same_bits_every_time(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = Problem(1500, 1300, 2000, "float32")
    a, b = operands(problem, rng)
    first, _, _ = multiply(runner, NAME, problem, a, b, rng, config=LARGE)
    for _ in range(10):
        np.testing.assert_array_equal(multiply(runner, NAME, problem, a, b, rng, config=LARGE)[0], first)
