"""Proven bounds hold on operands made to break them, measured in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.catalog import BY_NAME, CATALOG
from kernels.model.bounds import BENIGN, Bound, any_magnitudes, proven_bound
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.support.bounds.arithmetics import CONVENTIONAL, LOWERED, on_tensor_cores
from tests.support.bounds.operand_data import operand_pairs
from tests.support.exact import absolute_sums, scaled, worst_ratio
from tests.support.kernels.emulated import product as by_digits
from tests.support.kernels.emulated_judge import judge
from tests.unit.kernels.entries.test_strassen import by_halves
from worker.check.elements import narrow, widen
from worker.cpu.kernels import CPU_KERNELS
from worker.product.magnitudes import magnitudes_of

M, K, N = 4, 48, 4
Multiply = Callable[[Array, Array], Array]


def data(dtype: DTypeName, k: int = K) -> Iterator[tuple[str, Array, Array]]:
    for name, a, b in operand_pairs(M, k, N, dtype, np.random.default_rng(11)):
        with np.errstate(all="ignore"):
            yield name, a.astype(dtype), b.astype(dtype)


def cpu(kernel: str, dtype: DTypeName) -> Multiply:
    return lambda a, b: CPU_KERNELS[kernel](Problem(len(a), b.shape[1], a.shape[1], dtype), a, b, None)


def ratios(kernel: str, dtype: DTypeName, multiply: Multiply) -> dict[str, float]:
    """The worst error over the componentwise bound, by operands for which there is one."""
    found = {}
    for name, a, b in data(dtype):
        problem = Problem(M, N, K, dtype)
        bound = proven_bound(BY_NAME[kernel], problem, magnitudes_of(a, dtype), magnitudes_of(b, dtype)).componentwise
        if bound is None:
            continue
        with np.errstate(all="ignore"):
            c = multiply(a, b)
        limits = scaled(bound, absolute_sums(a, b))
        found[name] = worst_ratio(c, a, b, limits, float(np.finfo(dtype).smallest_subnormal))
    return found


FLOATS: tuple[DTypeName, ...] = ("float32", "float64")
CASES: list[tuple[str, DTypeName, Multiply]] = [
    *(("cpu_blas", dtype, each) for dtype in FLOATS for each in CONVENTIONAL.values()),
    *((name, "float32", each) for name, each in LOWERED.items()),
    *((name, dtype, cpu(name, dtype)) for dtype in FLOATS for name in ("cpu_blas", "cpu_exact")),
    ("cpu_float64", "float32", cpu("cpu_float64", "float32")),
]


@pytest.mark.parametrize(("kernel", "dtype", "multiply"), CASES)
def test_no_element_is_beyond_the_componentwise_bound(kernel: str, dtype: DTypeName, multiply: Multiply) -> None:
    found = ratios(kernel, dtype, multiply)
    assert len(found) >= 8 and {"normal", "cancelling", "sparse"} <= found.keys()
    assert max(found.values()) <= 1.0, found


def test_the_bound_of_sums_is_nearly_reached() -> None:
    """So a bound of half its size would not pass."""
    assert ratios("cpu_blas", "float32", CONVENTIONAL["in order"])["absorbed"] > 0.9
    assert ratios("cublas_bf16", "float32", LOWERED["cublas_bf16"])["of one sign"] > 0.3


@pytest.mark.parametrize(("dtype", "tensor"), [("float16", True), ("float16", False), ("bfloat16", True)])
def test_products_of_16_bits_are_rounded_once_more(dtype: DTypeName, tensor: bool) -> None:
    kernel, multiply = ("tensor_wmma", on_tensor_cores) if tensor else ("naive", CONVENTIONAL["in order"])
    for name, a, b in data("float32"):
        if name in ("subnormal", "products that underflow", "huge", "sums that overflow", "far apart"):
            continue
        a, b = (narrow(each, dtype) for each in (a, b))
        wide_a, wide_b = widen(a, dtype), widen(b, dtype)
        bound = proven_bound(BY_NAME[kernel], Problem(M, N, K, dtype), magnitudes_of(a, dtype), magnitudes_of(b, dtype))
        if bound.componentwise is None:
            assert name == "graded" and dtype == "bfloat16"
            continue
        c = widen(narrow(multiply(wide_a, wide_b), dtype), dtype)
        if not np.isfinite(c).all():
            continue
        limits = scaled(bound.componentwise, absolute_sums(wide_a, wide_b))
        assert worst_ratio(c, wide_a, wide_b, limits, 2.0 ** (-24 if dtype == "float16" else -133)) <= 1.0, name


def test_products_of_halves_are_within_their_norms() -> None:
    problem, rng = Problem(8, 8, 64, "float32"), np.random.default_rng(2)
    worst = 0.0
    for name, a, b in operand_pairs(8, 64, 8, "float32", rng):
        with np.errstate(all="ignore"):
            a, b = a.astype(np.float32), b.astype(np.float32)
            bound = proven_bound(BY_NAME["strassen"], problem, magnitudes_of(a, "float32"), magnitudes_of(b, "float32"))
            c = by_halves(a, b)
        assert bound.componentwise is None or name == "zeros"
        if bound.normwise is None or not np.isfinite(c).all():
            continue
        norms = np.linalg.norm(a.astype(float), axis=1).max() * np.linalg.norm(b.astype(float), axis=0).max()
        limit = [[Fraction(bound.normwise) * Fraction(norms)] * 8] * 8
        worst = max(worst, worst_ratio(c, a, b, limit, 2.0**-149))
    assert 0.0 < worst <= 1.0


def test_products_of_digits_are_within_their_bound() -> None:
    """In every way that the judge lets a tile go, at its limit."""
    rng, ways, shape = np.random.default_rng(4), set(), (128, 1024)
    problem = Problem(128, 128, 1024, "float32")
    for binades in (None, 0, 1, 2, 4, 8, 12):
        a, b = (_of_binades(binades, shape, rng) for _ in range(2))
        judged = judge(a, b, along=(True, True))
        if judged.in_float32:
            continue
        ways.add(judged.ways[0])
        bound = proven_bound(
            BY_NAME["fp32_emulated"], problem, magnitudes_of(a, "float32"), magnitudes_of(b, "float32")
        )
        assert bound.componentwise is not None
        c, wide_a, wide_b = by_digits(a, b, judged.ways[0]), a.astype(np.float64), b.astype(np.float64)
        sizes = np.abs(wide_a) @ np.abs(wide_b).T
        errors = np.abs(c - wide_a @ wide_b.T) - 2.0**-42 * sizes  # what float64 may be off by itself
        kept = np.ix_(~judged.rows, ~judged.columns)
        assert (errors[kept] <= bound.componentwise * sizes[kept]).all()
    assert {"six", "eight", "ten"} <= ways


def _of_binades(binades: int | None, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Of one size for None, else normal and scaled."""
    if binades is None:
        values: Array = rng.uniform(0.5, 1.0, shape) * rng.choice([-1, 1], shape)
    else:
        values = np.ldexp(rng.standard_normal(shape), rng.integers(-binades, 1, shape))
    return values.astype(np.float32)


def test_small_bounds_are_not_lost_beside_one() -> None:
    for k in (1, 3):
        bound = proven_bound(BY_NAME["cpu_blas"], Problem(8, 8, k, "float64"), BENIGN, BENIGN)
        assert k * 2.0**-53 <= (bound.componentwise or 0.0) <= (k + 1e-9) * 2.0**-53


def test_bounds_grow_with_the_magnitudes_and_the_depth() -> None:
    for kernel in CATALOG:
        for dtype in kernel.dtypes:
            least, most = any_magnitudes(dtype), any_magnitudes(dtype)
            shallow, deep = (proven_bound(kernel, Problem(8, 8, k, dtype), BENIGN, BENIGN) for k in (16, 4096))
            worst = proven_bound(kernel, Problem(8, 8, 16, dtype), least, most)
            for of_shallow, of_deep, of_worst in zip(*map(both, (shallow, deep, worst)), strict=True):
                assert of_shallow <= of_deep and of_shallow <= of_worst, (kernel.name, dtype)
            assert shallow.normwise is None or shallow.normwise <= (shallow.componentwise or 1.0)
            assert kernel.is_reproducible(dtype) == (DTYPES[dtype].is_integer or kernel.name == "cpu_exact")


def both(bound: Bound) -> tuple[float, float]:
    componentwise, normwise = (np.inf if each is None else each for each in (bound.componentwise, bound.normwise))
    return componentwise, normwise
