"""What a GPU's products are held against: right for operands of every kind and type, and no looser than the bound."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.catalog import BY_NAME
from kernels.model.bounds import Bound, proven_bound
from kernels.model.numerics import DTypeName
from tests.support.bounds.true_products import TrueProduct, true_products, worst_of
from worker.cpu.blas import multiply

FLOATS: tuple[DTypeName, ...] = ("float16", "bfloat16", "float32", "float64", "float8_e4m3")


def products(dtype: DTypeName, k: int = 64) -> dict[str, TrueProduct]:
    return {each.name: each for each in true_products(9, 7, k, dtype, np.random.default_rng(5))}


def bound_of(true: TrueProduct) -> Bound:
    kernel = BY_NAME["warp_tiled"]
    return proven_bound(kernel, true.problem, true.of_a, true.of_b)


def by_blas(true: TrueProduct) -> Array:
    return multiply(true.problem, true.a, true.b)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_right_product_is_within_its_bound(dtype: DTypeName) -> None:
    """Whatever overflows: warnings are errors here."""
    found = {name: (bound_of(true), true) for name, true in products(dtype).items()}
    held = {name: worst_of(true, bound, by_blas(true)) for name, (bound, true) in found.items()}
    assert all(worst <= 1.0 for worst, _ in held.values()), held
    assert sum(count > 0 for _, count in held.values()) >= 9


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_wrong_element_is_found(dtype: DTypeName) -> None:
    """By two and a half times what the componentwise bound grants, by an infinity, and by a NaN."""
    true = products(dtype)["of one sign"]
    bound, c = bound_of(true), by_blas(true)
    assert bound.componentwise is not None
    wide = true.values.copy()
    wide[3, 4] += 2.5 * bound.componentwise * true.sizes[3, 4]
    assert 1.0 < worst_of(true, bound, _as(c, wide))[0] < 4
    for wrong in (np.inf, np.nan):
        wide = true.values.copy()
        wide[3, 4] = wrong
        assert worst_of(true, bound, _as(c, wide))[0] == np.inf


def _as(c: Array, wide: Array) -> Array:
    """In the stored type of a product."""
    if c.dtype == np.uint16:
        return (wide.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return wide.astype(c.dtype)


def test_the_bound_in_norms_is_one_too() -> None:
    true = products("float32")["of one sign"]
    bound, c = bound_of(true), by_blas(true)
    assert bound.normwise is not None
    off = c.astype(np.float64)
    off[0, 0] += 1.5 * bound.normwise * float(true.norms)
    only = Bound(None, bound.normwise)
    assert worst_of(true, only, c)[0] < 0.1 and 1.0 < worst_of(true, only, off.astype(np.float32))[0] < 2.0


def test_norms_do_not_overflow() -> None:
    true = products("float64")["huge"]
    assert np.isfinite(true.norms) and true.norms > 1e300


def test_lines_that_are_not_finite_are_not_spoken_of() -> None:
    """float16 has not the range of these operands."""
    true = products("float16")["graded"]
    held = next(true.held(bound_of(true)))[0]
    assert not true.is_finite.all() and not held[~true.is_finite].any()
    assert products("float16")["huge"].of_a.largest == 0.0
