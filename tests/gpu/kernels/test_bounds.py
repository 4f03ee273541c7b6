"""Proven bounds on a real GPU: no kernel's product is beyond what `kernels/model/bounds.py` says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.catalog import CATALOG
from kernels.model.accuracy import SMALLEST_POSITIVE
from kernels.model.bounds import proven_bound
from kernels.model.kernel import Kernel
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.gpu.products import multiply
from tests.support.bounds.operand_data import operand_pairs
from worker.check.elements import as_float64, narrow
from worker.cpu.exact.product import multiply_exactly
from worker.product.magnitudes import magnitudes_of

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

SHAPES = [(64, 96, 64), (130, 66, 1000), (256, 256, 4096), (65, 257, 20_000)]
CASES = [
    (kernel, dtype)
    for kernel in CATALOG
    for dtype in kernel.dtypes
    if kernel.device_class == "gpu" and not DTYPES[dtype].is_integer and kernel.arithmetic.get(dtype) != "unproven"
]


def stored(values: Array, dtype: DTypeName) -> Array:
    with np.errstate(all="ignore"):
        return values.astype(dtype) if dtype in ("float32", "float64") else narrow(values.astype(np.float32), dtype)


@pytest.mark.parametrize(("kernel", "dtype"), CASES, ids=lambda each: getattr(each, "name", each))
def test_no_element_is_beyond_its_bound(
    runner: CudaRunner, kernel: Kernel, dtype: DTypeName, rng: np.random.Generator
) -> None:
    """Of a product that overflows nowhere. float64's own rounding, 2^-53, is below every bound."""
    proven = 0
    for m, n, k in SHAPES:
        problem = Problem(m, n, k, dtype)
        for name, *pair in operand_pairs(m, k, n, "float64" if dtype == "float64" else "float32", rng):
            a, b = (stored(each, dtype) for each in pair)
            bound = proven_bound(kernel, problem, magnitudes_of(a, dtype), magnitudes_of(b, dtype))
            if bound.normwise is None:
                continue
            c, _, _ = multiply(runner, kernel.name, problem, a, b, rng)
            assert c.dtype == STORAGE_DTYPES[problem.product_dtype]
            wide_a, wide_b = as_float64(a, dtype), as_float64(b, dtype)
            true = multiply_exactly(Problem(m, n, k, "float64"), wide_a, wide_b)
            off = np.abs(as_float64(c, problem.product_dtype) - true)[np.isfinite(true)]
            norms = np.linalg.norm(wide_a, axis=1).max() * np.linalg.norm(wide_b, axis=0).max()
            tiny, slack = SMALLEST_POSITIVE[problem.product_dtype], 1 + 2.0**-20
            assert off.max(initial=0.0) <= slack * (bound.normwise * norms) + tiny, (name, problem)
            if bound.componentwise is not None:
                sizes = multiply_exactly(Problem(m, n, k, "float64"), np.abs(wide_a), np.abs(wide_b))
                limit = slack * bound.componentwise * sizes[np.isfinite(true)] + tiny
                assert (off <= limit).all(), (name, problem, float((off / limit).max()))
            proven += 1
    assert proven >= len(SHAPES)
