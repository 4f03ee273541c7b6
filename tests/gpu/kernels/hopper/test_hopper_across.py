"""Kernels for Hopper with B as it lies: what test_hopper.py asks of a config that suits, asked of their smallest tiles
and of their largest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.entry.config import TileConfig
from kernels.model.numerics import DTypeName, Problem
from tests.gpu.kernels.hopper.test_hopper import assert_exact, infinities
from tests.gpu.products import multiply
from tests.support.kernels.products import Data, exact, in_float64, operands

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

Variant = tuple[str, DTypeName, TileConfig]
TILES = ((64, 3, 1), (256, 4, 2))
KERNELS: list[Variant] = [
    ("hopper_tf32", "float32", {}),
    ("hopper_int8", "int8", {}),
    ("hopper_fp8", "float8_e4m3", {"promote": 0}),
]


def variants(*names: str) -> pytest.MarkDecorator:
    chosen: list[Variant] = [
        (name, dtype, {"block_n": block_n, "stages": stages, "cluster": cluster, **own})
        for name, dtype, own in KERNELS
        for block_n, stages, cluster in TILES
        if name in names or not names
    ]
    return pytest.mark.parametrize("variant", chosen, ids=[f"{name}-{config['block_n']}" for name, _, config in chosen])


@variants()
def test_many_tiles_of_every_block(runner: CudaRunner, variant: Variant, rng: np.random.Generator) -> None:
    name, dtype, config = variant
    for m, n in ((4097, 4095), (4096, 4097), (8193, 1025), (1, 40_001), (40_001, 1)):
        assert_exact(runner, name, Problem(m, n, 130, dtype), rng, config)


@variants()
def test_batches(runner: CudaRunner, variant: Variant, rng: np.random.Generator) -> None:
    name, dtype, config = variant
    for batched in ((True, True), (True, False), (False, True)):
        problem = Problem(130, 65, 70, dtype, 300, a_batched=batched[0], b_batched=batched[1])
        assert_exact(runner, name, problem, rng, config)
    assert_exact(runner, name, Problem(18, 10, 40, dtype, 70_000, a_batched=True), rng, config)


@variants()
def test_rows_that_begin_anywhere(runner: CudaRunner, variant: Variant, rng: np.random.Generator) -> None:
    name, dtype, config = variant
    for m, n, k in ((300, 7, 9), (7, 300, 31), (33, 31, 300)):
        for transpose_a in (False, True):
            assert_exact(runner, name, Problem(m, n, k, dtype, 1, transpose_a), rng, config)


@variants("hopper_tf32")
def test_what_pads_a_tile_never_meets_an_infinity(
    runner: CudaRunner, variant: Variant, rng: np.random.Generator
) -> None:
    name, dtype, config = variant
    for m, n, k in ((70, 75, 37), (136, 72, 40), (257, 129, 65)):
        problem = Problem(m, n, k, dtype)
        a, b = (infinities(each, dtype) for each in operands(problem, rng, "uniform"))
        c, check, _ = multiply(runner, name, problem, a, b, rng, config=config)
        assert check.passed, (problem, check)
        np.testing.assert_array_equal(c, in_float64(problem, a, b)[0], err_msg=str(problem))


@variants("hopper_int8")
def test_bytes_of_their_whole_range(runner: CudaRunner, variant: Variant, rng: np.random.Generator) -> None:
    name, dtype, config = variant
    for m, n, k in ((129, 257, 127), (640, 500, 1000), (63, 1, 4096)):
        problem = Problem(m, n, k, dtype)
        a, b = operands(problem, rng)
        c, check, _ = multiply(runner, name, problem, a, b, rng, config=config)
        np.testing.assert_array_equal(c, exact(problem, a, b), err_msg=str(problem))
        assert check.passed


def on_device(runner: CudaRunner, variant: Variant, pair: tuple[Array, Array], problem: Problem) -> Array:
    return multiply(runner, variant[0], problem, *pair, np.random.default_rng(), config=variant[2])[0]


@variants()
@pytest.mark.parametrize("data", ["normal", "uniform", "wide"])
def test_the_bits_are_those_of_b_along_k(
    runner: CudaRunner, variant: Variant, data: Data, rng: np.random.Generator
) -> None:
    """The same products are added in the same order, whichever operand comes first."""
    problem = Problem(1500, 1300, 2000, variant[1])
    a, b = operands(problem, rng, data)
    across = on_device(runner, variant, (a, b), problem)
    along = on_device(runner, variant, (a, np.ascontiguousarray(b.T)), replace(problem, transpose_b=True))
    np.testing.assert_array_equal(across, along)


@variants()
def test_the_same_bits_every_time(runner: CudaRunner, variant: Variant, rng: np.random.Generator) -> None:
    problem = Problem(1500, 1300, 2000, variant[1])
    pair = operands(problem, rng)
    first = on_device(runner, variant, pair, problem)
    for _ in range(10):
        np.testing.assert_array_equal(on_device(runner, variant, pair, problem), first)
