"""Every kernel of the catalogue on a real GPU, against float64 and exact integers, on shapes that no tile divides."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kernels.catalog import BY_NAME, CATALOG
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import DTYPES, OWN_ACCURACY, DTypeName, Problem
from tests.gpu.products import compile_all, multiply
from tests.support.kernels.products import Data, assert_right, in_float64, matrix, operands, stored
from worker.check.elements import as_float64

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

# Modes that lower precision are tested in cublas/test_cublas_modes.py.
CASES = [
    (kernel.name, dtype)
    for kernel in CATALOG
    if kernel.device_class == "gpu"
    for dtype in kernel.dtypes
    if kernel.accuracy[dtype] == OWN_ACCURACY.get(dtype)
]
FLOAT_CASES = [(name, dtype) for name, dtype in CASES if "int" not in dtype]
FULL_PRECISION = sorted({name for name, dtype in CASES if dtype == "float32"})
NAMES = [kernel.name for kernel in CATALOG if kernel.device_class == "gpu" and "float32" in kernel.dtypes]
SHAPES = [
    (1, 1, 1), (2, 2, 2), (31, 33, 32), (32, 31, 33), (33, 32, 31), (64, 64, 64), (255, 257, 256), (257, 256, 255),
    (1, 1000, 77), (1000, 1, 77), (1, 1, 5000), (3000, 2, 9), (2, 3000, 9), (64, 65, 0), (130, 66, 8), (65, 129, 7),
]  # fmt: skip
LARGE_SHAPES = [(1023, 1025, 1024), (1025, 1024, 1023), (1024, 1023, 1025), (2048, 1024, 33)]
SKINNY_SHAPES = [(16, 8192, 16), (8192, 16, 64), (16, 16, 8192), (1, 8192, 300), (8192, 1, 300), (3, 5, 40_000)]
LARGEST_SHAPES = [(2047, 2049, 2048), (4097, 4095, 4096), (4095, 4096, 4097)]
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
CONFIG_SHAPE = (261, 389, 67)  # several tiles of every size, and parts of them
CONFIG_SAMPLES = 8  # of a kernel, beside its defaults


def sampled_configs(kernel: CudaKernel) -> list[TileConfig]:
    """Every default, and some of the others from the first to the last."""
    every = list(kernel.configs())
    at = np.unique(np.linspace(0, len(every) - 1, CONFIG_SAMPLES).astype(int))
    sample = [every[i] for i in at] + [kernel.resolve_config(default.config) for default in kernel.defaults]
    return [config for i, config in enumerate(sample) if config not in sample[:i]]


CONFIGS = [
    (kernel.name, config) for kernel in CATALOG if isinstance(kernel, CudaKernel) for config in sampled_configs(kernel)
]


def data_for(name: str, dtype: DTypeName) -> Data:
    """Small integers where a kernel keeps less than its operands' own precision: their sums are exact there too."""
    return "normal" if BY_NAME[name].accuracy[dtype] == OWN_ACCURACY.get(dtype) else "integers"


def is_of_host_library(name: str) -> bool:
    """Such a product has no grid, and no copies of ours."""
    return isinstance(BY_NAME[name], HostLibraryKernel)


@pytest.fixture(scope="session", autouse=True)
def compiled(session_runner: CudaRunner) -> None:
    """Everything that these tests run, by all cores at once: one by one it would take longer than the tests."""
    shapes = [*SHAPES, *LARGE_SHAPES, *SKINNY_SHAPES, *LARGEST_SHAPES]
    wanted: list[tuple[str, TileConfig, Problem]] = []
    for (name, dtype), shape, transposes in itertools.product(CASES, shapes, TRANSPOSES):
        wanted.append((name, NO_CONFIG, Problem(*shape, dtype, 1, *transposes)))
    for (name, config), transposes in itertools.product(CONFIGS, TRANSPOSES[:1]):
        wanted += [(name, config, Problem(*CONFIG_SHAPE, dtype, 1, *transposes)) for dtype in BY_NAME[name].dtypes]
    compile_all(session_runner, wanted)


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
        assert measured.kernel_ms > 0
        assert is_of_host_library(name) or (measured.h2d_ms > 0 and measured.d2h_ms > 0)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_skinny_shapes(runner: CudaRunner, name: str, dtype: DTypeName, rng: np.random.Generator) -> None:
    for index, (m, n, k) in enumerate(SKINNY_SHAPES):
        problem = Problem(m, n, k, dtype, 1, *TRANSPOSES[index % 4])
        a, b = operands(problem, rng)
        c, check, _ = multiply(runner, name, problem, a, b, rng)
        assert_right(problem, a, b, c)
        assert check.passed, (problem, check)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_the_largest_shapes(runner: CudaRunner, name: str, dtype: DTypeName, rng: np.random.Generator) -> None:
    """Checked as a whole on the device, and against float64 on some rows, the last tile's among them."""
    for m, n, k in LARGEST_SHAPES:
        problem = Problem(m, n, k, dtype)
        a, b = operands(problem, rng)
        c, check, _ = multiply(runner, name, problem, a, b, rng)
        rows = [0, 1, m // 2, m - 34, m - 2, m - 1]
        assert_right(Problem(len(rows), n, k, dtype), a[rows], b, c[rows])
        assert check.passed, (problem, check)


@pytest.mark.parametrize(("name", "config"), CONFIGS)
def test_tile_configs(runner: CudaRunner, name: str, config: TileConfig, rng: np.random.Generator) -> None:
    kernel = BY_NAME[name]
    for dtype in kernel.dtypes:
        if kernel.misfit(config, dtype, runner.device.traits) is None:
            problem = Problem(*CONFIG_SHAPE, dtype)
            a, b = operands(problem, rng, data_for(name, dtype))
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


@pytest.mark.parametrize("name", [name for name in NAMES if not is_of_host_library(name)])
def test_a_batch_longer_than_the_grid_is_deep(runner: CudaRunner, name: str, rng: np.random.Generator) -> None:
    problem = Problem(2, 3, 2, "float32", 70_000, a_batched=True, b_batched=True)
    a, b = operands(problem, rng, data_for(name, "float32"))
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


@pytest.mark.parametrize("name", FULL_PRECISION)
def test_subnormal_numbers_are_kept(runner: CudaRunner, name: str, rng: np.random.Generator) -> None:
    problem = Problem(40, 40, 40, "float32")
    a = np.ldexp(rng.integers(1, 9, size=(40, 40)).astype(np.float32), -145)
    b = rng.integers(1, 9, size=(40, 40)).astype(np.float32)
    c, check, _ = multiply(runner, name, problem, a, b, rng)
    np.testing.assert_array_equal(c, (a.astype(np.float64) @ b).astype(np.float32))
    assert check.passed


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_operands_of_more_than_2_31_elements(runner: CudaRunner, name: str, rng: np.random.Generator) -> None:
    """In the smallest type that the kernel takes. Rows of small integers, so that every sum is exact in every type."""
    size = 46_400  # squared it passes 2^31
    dtype = min((dtype for known, dtype in CASES if known == name), key=lambda dtype: DTYPES[dtype].itemsize)
    problem = Problem(size, 2, size, dtype)
    a = np.resize(stored(rng.integers(0, 2, size=1_000_003).astype(np.float64), dtype), (size, size))
    b = stored(np.zeros((size, 2)), dtype)
    b[[0, 17, size // 2, size - 1]] = stored(np.array([1.0, 2.0]), dtype)
    c, check, _ = multiply(runner, name, problem, a, b, rng)
    true = as_float64(a[:, [0, 17, size // 2, size - 1]], dtype).sum(axis=1)
    np.testing.assert_array_equal(as_float64(c, problem.product_dtype), np.stack([true, 2 * true], axis=1))
    assert check.passed


def test_k_is_split_the_same_way_every_time(runner: CudaRunner, rng: np.random.Generator) -> None:
    """`split_k` adds its parts up in the order of k, whichever block comes last."""
    problem = Problem(64, 96, 20_000, "float32")
    a, b = operands(problem, rng)
    first = multiply(runner, "split_k", problem, a, b, rng)[0]
    for _ in range(20):
        np.testing.assert_array_equal(multiply(runner, "split_k", problem, a, b, rng)[0], first)
