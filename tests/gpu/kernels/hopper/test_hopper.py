"""The kernels for Hopper's tensor cores, where copies, rings, schedule and stores have their edges.

Small integers make every sum exact, so products are compared to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.gpu.products import choice, compile_all, multiply, one_of_each_edge
from tests.support.kernels.products import in_float64, operands, stored
from worker.check.elements import as_float64

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

FLOATS: list[tuple[str, DTypeName]] = [
    ("hopper_bf16", "bfloat16"),
    ("hopper_fp16", "float16"),
    ("hopper_tf32", "float32"),
]
CASES: list[tuple[str, DTypeName]] = [*FLOATS, ("hopper_int8", "int8"), ("hopper_fp8", "float8_e4m3")]
EACH = pytest.mark.parametrize(("name", "dtype"), CASES)
EACH_FLOAT = pytest.mark.parametrize(("name", "dtype"), FLOATS)
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
# Inside, at and past the edges of boxes, tiles and clusters; thin last rows and columns; rows that begin anywhere.
SHAPES = [
    (1, 1, 1),
    (63, 65, 33),
    (129, 257, 65),
    (256, 512, 192),
    (255, 511, 200),
    (385, 769, 193),
    (577, 353, 66),
    (700, 1100, 70),
]


def chosen(name: str) -> list[TileConfig]:
    """Every size of a tile with its fewest and most stages, alone and in clusters, and each way to sum."""
    configs = one_of_each_edge(BY_NAME[name].configs())
    by_shape: dict[tuple[int, ...], list[TileConfig]] = {}
    for config in configs:
        kind = config["block_m"], config["block_n"], config["cluster"], config.get("promote", 0)
        by_shape.setdefault(kind, []).append(config)
    return [config for alike in by_shape.values() for config in (alike[0], alike[-1])]


CONFIGS = [(name, dtype, config) for name, dtype in CASES for config in chosen(name)]


@pytest.fixture(scope="module", autouse=True)
def compiled(session_runner: CudaRunner) -> None:
    """Skips on a device without these instructions; compiles everything that these tests run, by all cores."""
    reason = BY_NAME[CASES[0][0]].unsupported_because(session_runner.device.traits)
    if reason is not None:
        pytest.skip(reason)
    wanted = [
        (name, config, Problem(1, 1, 1, dtype, 1, *transposes))
        for name, dtype, config in CONFIGS
        for transposes in TRANSPOSES
    ]
    compile_all(session_runner, wanted)


def assert_exact(
    runner: CudaRunner, name: str, problem: Problem, rng: np.random.Generator, config: TileConfig = NO_CONFIG
) -> None:
    a, b = operands(problem, rng, "integers")
    c, check, _ = multiply(runner, name, problem, a, b, rng, config=config)
    np.testing.assert_array_equal(c, stored(in_float64(problem, a, b)[0], problem.product_dtype), err_msg=str(problem))
    assert check.passed, (problem, check)


@pytest.mark.parametrize(("name", "dtype", "config"), CONFIGS)
def test_configs(runner: CudaRunner, name: str, dtype: DTypeName, config: TileConfig, rng: np.random.Generator) -> None:
    for index, (m, n, k) in enumerate(SHAPES):
        assert_exact(runner, name, Problem(m, n, k, dtype, 1, *TRANSPOSES[index % 4]), rng, config)


@pytest.mark.parametrize(("name", "dtype", "config"), CONFIGS)
def test_products_shorter_and_longer_than_the_ring(
    runner: CudaRunner, name: str, dtype: DTypeName, config: TileConfig, rng: np.random.Generator
) -> None:
    stages, step = config["stages"], 128 // DTYPES[dtype].itemsize
    depths = sorted({0, 1, 8, *(step * steps + more for steps in (1, stages, 2 * stages + 1) for more in (-1, 0, 1))})
    for index, k in enumerate(depths):
        assert_exact(runner, name, Problem(136, 264, k, dtype, 1, *TRANSPOSES[index % 4]), rng, config)


@EACH
def test_many_tiles_of_every_block(runner: CudaRunner, name: str, dtype: DTypeName, rng: np.random.Generator) -> None:
    """More tiles than the device has multiprocessors, several times over; a wrong tile or a race would show."""
    small: TileConfig = {"block_n": 64, "stages": 3}
    for index, (m, n) in enumerate(((4097, 4095), (4096, 4097), (8193, 1025), (1, 40_001), (40_001, 1))):
        for config in (NO_CONFIG, small):
            assert_exact(runner, name, Problem(m, n, 130, dtype, 1, *TRANSPOSES[index % 4]), rng, config)


@EACH
def test_batches(runner: CudaRunner, name: str, dtype: DTypeName, rng: np.random.Generator) -> None:
    """More products than the device has multiprocessors; an operand may serve them all."""
    for index, batched in enumerate(((True, True), (True, False), (False, True))):
        problem = Problem(130, 65, 70, dtype, 300, *TRANSPOSES[index], *batched)
        assert_exact(runner, name, problem, rng)
    assert_exact(runner, name, Problem(18, 10, 40, dtype, 70_000, False, False, True, False), rng)


@EACH
def test_rows_that_begin_anywhere(runner: CudaRunner, name: str, dtype: DTypeName, rng: np.random.Generator) -> None:
    """Narrow matrices lie on the device without padding: no bulk copy reaches their rows, so they are moved first."""
    for m, n, k in ((300, 7, 9), (7, 300, 31), (33, 31, 300)):
        for transposes in TRANSPOSES:
            assert_exact(runner, name, Problem(m, n, k, dtype, 1, *transposes), rng)
    assert_exact(runner, name, Problem(19, 5, 23, dtype, 3, a_batched=True, b_batched=True), rng)


@EACH
def test_nothing_outside_the_product_is_written(
    runner: CudaRunner, name: str, dtype: DTypeName, rng: np.random.Generator
) -> None:
    """Stores of whole boxes end with the last 16 bytes that C has part of, not with its rows' padding."""
    import cupy

    from worker.cuda.launch import prepare
    from worker.cuda.memory import allocate, upload
    from worker.cuda.pitch import operand_layout, product_layout

    for m, n in ((129, 257), (300, 500), (1025, 900)):
        problem = Problem(m, n, 64, dtype)
        pair, on_device = operands(problem, rng), []
        for elements in pair:
            on_device.append(allocate(operand_layout(dtype, elements.shape)))
            upload(elements, on_device[-1])
        c = allocate(product_layout(problem))
        c.memory.memset_async(0xFF, c.layout.bytes)
        found = choice(runner, name, problem)
        assert isinstance(found.kernel, CudaKernel)
        prepare(runner.compiler, found.kernel, found.config, problem).launch(on_device[0], on_device[1], c)
        used = -(-n * c.layout.itemsize // 16) * 16
        padding = cupy.ndarray((m, c.layout.pitch_bytes), np.uint8, c.memory)[:, used:].get()
        assert padding.size and np.all(padding == 0xFF)


def infinities(a: Array, dtype: DTypeName) -> Array:
    """Infinite where above a half, else one; a few are NaN."""
    spoilt = np.where(as_float64(a, dtype) > 0.5, stored(np.array(np.inf), dtype), stored(np.array(1.0), dtype))
    spoilt.reshape(-1)[:: max(1, a.size // 3)] = stored(np.array(np.nan), dtype)
    return spoilt


@EACH_FLOAT
def test_what_pads_a_tile_never_meets_an_infinity(
    runner: CudaRunner, name: str, dtype: DTypeName, rng: np.random.Generator
) -> None:
    for m, n, k in ((70, 75, 37), (72, 136, 40), (129, 257, 65)):
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, dtype, 1, *transposes)
            a, b = (infinities(each, dtype) for each in operands(problem, rng, "uniform"))
            c, check, _ = multiply(runner, name, problem, a, b, rng)
            assert check.passed, (problem, check)
            np.testing.assert_array_equal(as_float64(c, dtype), in_float64(problem, a, b)[0], err_msg=str(problem))


@EACH_FLOAT
def test_sums_stay_in_float32(runner: CudaRunner, name: str, dtype: DTypeName, rng: np.random.Generator) -> None:
    """4096 ones: bfloat16 would stop at 256, float16 at 2048."""
    problem = Problem(130, 140, 4096, dtype)
    a, b = (stored(np.ones(shape), dtype) for shape in ((130, 4096), (4096, 140)))
    c, _, _ = multiply(runner, name, problem, a, b, rng)
    assert np.all(as_float64(c, dtype) == 4096)


@EACH
def test_the_same_bits_every_time(runner: CudaRunner, name: str, dtype: DTypeName, rng: np.random.Generator) -> None:
    problem = Problem(1500, 1300, 2000, dtype)
    a, b = operands(problem, rng)
    first, _, _ = multiply(runner, name, problem, a, b, rng)
    for _ in range(10):
        np.testing.assert_array_equal(multiply(runner, name, problem, a, b, rng)[0], first)
