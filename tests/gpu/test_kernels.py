"""Every kernel of the catalogue on a real GPU, against float64 and exact integers, on shapes that no tile divides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kernels.catalog import BY_NAME, CATALOG
from kernels.kernel import TileConfig
from kernels.numerics import DTypeName, Problem
from tests.gpu.products import multiply
from tests.support.products import assert_right, in_float64, matrix, operands, stored
from worker.elements import as_float64

if TYPE_CHECKING:
    from worker.cuda_runner import CudaRunner

CASES = [(kernel.name, dtype) for kernel in CATALOG if kernel.device_class == "gpu" for dtype in kernel.dtypes]
FLOAT_CASES = [(name, dtype) for name, dtype in CASES if "int" not in dtype]
SHAPES = [
    (1, 1, 1), (2, 2, 2), (31, 33, 32), (32, 31, 33), (33, 32, 31), (64, 64, 64), (255, 257, 256), (257, 256, 255),
    (1, 1000, 77), (1000, 1, 77), (1, 1, 5000), (3000, 2, 9), (2, 3000, 9), (64, 65, 0),
]  # fmt: skip
LARGE_SHAPES = [(1023, 1025, 1024), (1025, 1024, 1023), (1024, 1023, 1025), (2048, 1024, 33)]
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
CONFIGS: list[tuple[str, TileConfig]] = [
    *(("naive", {"block_m": m, "block_n": n}) for m, n in [(1, 32), (32, 8), (32, 32), (8, 128), (2, 16), (4, 64)]),
    *(("shared_tiled", {"tile": tile}) for tile in (8, 16, 32)),
]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_awkward_shapes(runner: CudaRunner, name: str, dtype: DTypeName, rng: np.random.Generator) -> None:
    for m, n, k in SHAPES:
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, dtype, 1, *transposes)
            a, b = operands(problem, rng)
            c, check, _ = multiply(runner, name, problem, a, b, rng)
            assert_right(problem, a, b, c)
            assert check.passed, (problem, check)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_large_shapes(runner: CudaRunner, name: str, dtype: DTypeName, rng: np.random.Generator) -> None:
    """Checked on the device itself."""
    for index, (m, n, k) in enumerate(LARGE_SHAPES):
        problem = Problem(m, n, k, dtype, 1, *TRANSPOSES[index])
        a, b = operands(problem, rng, "uniform" if index % 2 else "normal")
        c, check, measured = multiply(runner, name, problem, a, b, rng)
        assert_right(problem, a, b, c)
        assert check.passed, (problem, check)
        assert measured.kernel_ms > 0 and measured.h2d_ms > 0 and measured.d2h_ms > 0


@pytest.mark.parametrize(("name", "config"), CONFIGS)
def test_tile_configs(runner: CudaRunner, name: str, config: TileConfig, rng: np.random.Generator) -> None:
    for dtype in BY_NAME[name].dtypes:
        for transposes in TRANSPOSES:
            problem = Problem(70, 133, 65, dtype, 1, *transposes)
            a, b = operands(problem, rng)
            assert_right(problem, a, b, multiply(runner, name, problem, a, b, rng, config=config)[0])


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
def test_batches(
    runner: CudaRunner, name: str, dtype: DTypeName, batched: tuple[bool, bool], rng: np.random.Generator
) -> None:
    for transposes in TRANSPOSES:
        for batch, m, n, k in ((3, 33, 17, 29), (2, 300, 299, 301)):
            problem = Problem(m, n, k, dtype, batch, *transposes, *batched)
            a, b = operands(problem, rng)
            c, check, _ = multiply(runner, name, problem, a, b, rng)
            assert_right(problem, a, b, c)
            assert check.passed, (problem, check)


@pytest.mark.parametrize("name", ["naive", "shared_tiled", "cublas"])
def test_a_batch_longer_than_the_grid_is_deep(runner: CudaRunner, name: str, rng: np.random.Generator) -> None:
    problem = Problem(2, 3, 2, "float32", 70_000, a_batched=True, b_batched=True)
    a, b = operands(problem, rng)
    c, check, _ = multiply(runner, name, problem, a, b, rng)
    assert_right(problem, a, b, c)
    assert check.passed


@pytest.mark.parametrize(("name", "dtype"), FLOAT_CASES)
def test_nan_infinity_and_overflow_follow_ieee(
    runner: CudaRunner, name: str, dtype: DTypeName, rng: np.random.Generator
) -> None:
    """Also where a tile reaches past the operands: what pads it must not meet an infinity."""
    problem = Problem(70, 75, 37, dtype)
    values_a, values_b = rng.standard_normal((70, 37)), rng.standard_normal((37, 75))
    values_a[0, 3], values_a[65, 36], values_b[4, 70], values_b[36, 0] = np.nan, np.inf, -np.inf, 0.0
    values_a[40], values_b[:, 9] = 6e4, 6e4
    a, b = stored(values_a, dtype), stored(values_b, dtype)
    c, check, _ = multiply(runner, name, problem, a, b, rng)
    assert check.passed, check
    true = as_float64(stored(in_float64(problem, a, b)[0], dtype), dtype)
    given = as_float64(c, dtype)
    np.testing.assert_array_equal(np.isnan(given), np.isnan(true))
    np.testing.assert_array_equal(np.isposinf(given), np.isposinf(true))
    np.testing.assert_array_equal(np.isneginf(given), np.isneginf(true))


@pytest.mark.parametrize(("name", "dtype"), [case for case in CASES if "float16" in case[1]])
def test_16_bit_floats_are_rounded_once(
    runner: CudaRunner, name: str, dtype: DTypeName, rng: np.random.Generator
) -> None:
    """Sums whose float32 value is exact: the product is the nearest 16-bit number to it."""
    problem = Problem(100, 90, 60, dtype)
    a, b = matrix((100, 60), dtype, rng, "integers"), matrix((60, 90), dtype, rng, "integers")
    c, _, _ = multiply(runner, name, problem, a, b, rng)
    np.testing.assert_array_equal(c, stored(in_float64(problem, a, b)[0], dtype))


@pytest.mark.parametrize("name", ["naive", "shared_tiled", "cublas"])
def test_subnormal_numbers_are_kept(runner: CudaRunner, name: str, rng: np.random.Generator) -> None:
    problem = Problem(40, 40, 40, "float32")
    a = np.ldexp(rng.integers(1, 9, size=(40, 40)).astype(np.float32), -145)
    b = rng.integers(1, 9, size=(40, 40)).astype(np.float32)
    c, check, _ = multiply(runner, name, problem, a, b, rng)
    np.testing.assert_array_equal(c, (a.astype(np.float64) @ b).astype(np.float32))
    assert check.passed


@pytest.mark.parametrize("name", ["naive", "shared_tiled", "cublas"])
def test_operands_of_more_than_2_31_elements(runner: CudaRunner, name: str, rng: np.random.Generator) -> None:
    size = 46_400  # squared it passes 2^31
    problem = Problem(size, 2, size, "int8")
    a = np.resize(rng.integers(-128, 128, size=1_000_003, dtype=np.int8), (size, size))
    b = np.ones((size, 2), np.int8)
    c, check, _ = multiply(runner, name, problem, a, b, rng)
    np.testing.assert_array_equal(c, np.repeat(a.sum(axis=1, dtype=np.int32)[:, np.newaxis], 2, axis=1))
    assert check.passed
