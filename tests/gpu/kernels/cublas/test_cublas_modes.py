"""cuBLAS's modes that round float32 operands, on a real GPU: really used, never worse than their class, and plain about
what they cannot hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.catalog import BY_NAME
from kernels.model.numerics import ACCURACY_RANGE, ACCURACY_UNIT_ROUNDOFF, Problem
from tests.gpu.products import multiply
from tests.support.kernels.products import in_float64, operands

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

MODES = ("cublas_tf32", "cublas_bf16", "cublas_fp16")
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
SHAPES = [
    (1, 1, 1), (2, 2, 2), (31, 33, 32), (33, 32, 31), (64, 64, 64), (255, 257, 256), (257, 256, 255),
    (1, 1000, 77), (1000, 1, 77), (1, 1, 5000), (3000, 2, 9), (64, 65, 0), (1023, 1025, 1024),
]  # fmt: skip


def unit(name: str) -> float:
    return ACCURACY_UNIT_ROUNDOFF[BY_NAME[name].accuracy["float32"]]


def largest_error(name: str, problem: Problem, a: Array, b: Array, c: Array) -> float:
    """Of any element, over what rounding both operands and summing in float32, in any order, can come to."""
    floor = ACCURACY_RANGE.get(BY_NAME[name].accuracy["float32"], (0.0, 0.0))[0]
    true, plain = in_float64(problem, a, b)
    _, floored_a = in_float64(problem, np.maximum(np.abs(a), floor), b)
    _, floored_b = in_float64(problem, a, np.maximum(np.abs(b), floor))
    granted = 1.01 * unit(name) * (floored_a + floored_b) + 2 * problem.k * 2.0**-24 * plain
    granted += problem.k * (unit(name) * floor) ** 2 + 2.0**-149
    return float(np.max(np.abs(c - true) / granted))


def relative_error(problem: Problem, a: Array, b: Array, c: Array) -> float:
    true, _ = in_float64(problem, a, b)
    return float(np.linalg.norm(c - true) / np.linalg.norm(true))


@pytest.mark.parametrize("name", MODES)
def test_the_mode_is_used(runner: CudaRunner, name: str, rng: np.random.Generator) -> None:
    """Of random numbers, rounding both operands leaves some 0.6 units in the mean square. cuBLAS may take TF32 for the
    16-bit types too, and then has that type's error; float32 has a hundredth of it."""
    problem = Problem(1024, 1024, 1024, "float32")
    a, b = operands(problem, rng)
    c, check, _ = multiply(runner, name, problem, a, b, rng)
    assert check.passed, check
    print(f"{name}: relative error {relative_error(problem, a, b, c):.3g}")
    assert 0.3 * unit("cublas_tf32") < relative_error(problem, a, b, c) < unit(name)
    full, _, _ = multiply(runner, "cublas", problem, a, b, rng)
    assert relative_error(problem, a, b, full) < unit("cublas_tf32") / 30


@pytest.mark.parametrize("name", MODES)
def test_any_shape(runner: CudaRunner, name: str, rng: np.random.Generator) -> None:
    for m, n, k in SHAPES:
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, "float32", 1, *transposes)
            a, b = operands(problem, rng)
            c, check, _ = multiply(runner, name, problem, a, b, rng)
            assert check.passed, (problem, check)
            assert largest_error(name, problem, a, b, c) <= 1.0, problem


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
def test_batches(runner: CudaRunner, name: str, batched: tuple[bool, bool], rng: np.random.Generator) -> None:
    for transposes in TRANSPOSES:
        for batch, m, n, k in ((3, 33, 17, 29), (2, 300, 299, 301)):
            problem = Problem(m, n, k, "float32", batch, *transposes, *batched)
            a, b = operands(problem, rng)
            c, check, _ = multiply(runner, name, problem, a, b, rng)
            assert check.passed, (problem, check)
            assert largest_error(name, problem, a, b, c) <= 1.0, problem


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("size", [64, 75])
def test_nan_and_infinity_follow_ieee(runner: CudaRunner, name: str, size: int, rng: np.random.Generator) -> None:
    problem = Problem(70, size, 37, "float32")
    a, b = operands(problem, rng)
    a[0, 3], a[65, 36], b[4, size - 5], b[36, 0] = np.nan, np.inf, -np.inf, 0.0
    c, check, _ = multiply(runner, name, problem, a, b, rng)
    assert check.passed, check
    true, _ = in_float64(problem, a, b)
    for kind in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(kind(c), kind(true))


@pytest.mark.parametrize("name", ["cublas_tf32", "cublas_bf16"])
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e6, 1e15])
def test_the_modes_with_float32_s_exponents_take_any_magnitude(
    runner: CudaRunner, name: str, scale: float, rng: np.random.Generator
) -> None:
    problem = Problem(256, 256, 256, "float32")
    a, b = operands(problem, rng)
    a = (a * np.float32(scale)).astype(np.float32)
    c, check, _ = multiply(runner, name, problem, a, b, rng)
    assert check.passed, check
    assert relative_error(problem, a, b, c) < unit(name)


# ---- float16's range ----
@pytest.mark.parametrize("scale", [1e-2, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8])
def test_small_elements_lose_what_the_class_grants(runner: CudaRunner, scale: float, rng: np.random.Generator) -> None:
    problem = Problem(256, 256, 256, "float32")
    a, b = operands(problem, rng)
    a = (a * np.float32(scale)).astype(np.float32)
    c, check, _ = multiply(runner, "cublas_fp16", problem, a, b, rng)
    assert check.passed, check
    assert largest_error("cublas_fp16", problem, a, b, c) <= 1.0


def test_float16_s_subnormal_numbers_are_kept(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = Problem(256, 256, 256, "float32")
    a = np.ldexp(rng.integers(-15, 16, size=(256, 256)).astype(np.float32), -24)
    b = rng.integers(-15, 16, size=(256, 256)).astype(np.float32)
    c, check, _ = multiply(runner, "cublas_fp16", problem, a, b, rng)
    assert check.passed
    np.testing.assert_array_equal(c, (a.astype(np.float64) @ b).astype(np.float32))


@pytest.mark.parametrize("size", [70_000.0, 1e6, 1e37])
def test_elements_beyond_float16_never_pass_as_a_product(
    runner: CudaRunner, size: float, rng: np.random.Generator
) -> None:
    """Infinite in C, or computed otherwise by a cuBLAS that does not round them; not a number that is wrong."""
    problem = Problem(256, 256, 256, "float32")
    a, b = operands(problem, rng)
    a[17, 5] = size
    c, check, _ = multiply(runner, "cublas_fp16", problem, a, b, rng)
    if check.passed:
        assert largest_error("cublas_fp16", problem, a, b, c) <= 1.0
    else:
        assert not np.isfinite(c[17]).any()
        assert np.isfinite(np.delete(c, 17, axis=0)).all()
