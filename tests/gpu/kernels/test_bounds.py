"""Proven bounds on a real GPU: no kernel's product is beyond what `kernels/model/bounds.py` says of it."""

from __future__ import annotations

import os
import secrets
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.catalog import CATALOG
from kernels.model.bounds import proven_bound
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import Kernel
from kernels.model.numerics import DTYPES, REAL_NAMES, DTypeName, Problem
from tests.gpu.products import choice, compile_all
from tests.support.bounds.true_products import TrueProduct, true_products, worst_of
from worker.device.operands import HostOperand
from worker.device.runner import gathered

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

SEED = int(os.environ.get("MATMUL_TEST_SEED", secrets.randbits(32)))
SHAPES = [(64, 96, 64), (65, 66, 1000), (66, 130, 4096), (9, 17, 20_000)]
# By type: what a product truly is is computed once for all kernels. Nothing is proven of complex products.
CASES = [
    (kernel, dtype)
    for dtype in REAL_NAMES
    if not DTYPES[dtype].is_integer
    for kernel in CATALOG
    if kernel.device_class == "gpu" and dtype in kernel.dtypes and kernel.arithmetic.get(dtype) != "unproven"
]


@lru_cache(maxsize=1)
def products_of(dtype: DTypeName) -> list[TrueProduct]:
    rng = np.random.default_rng(SEED)
    return [each for shape in SHAPES for each in true_products(*shape, dtype, rng)]


@lru_cache
def compile_for(runner: CudaRunner, dtype: DTypeName) -> None:
    """All kernels of a type at once, by all cores."""
    kernels = [kernel.name for kernel, of in CASES if of == dtype]
    compile_all(runner, ((name, NO_CONFIG, Problem(*shape, dtype)) for name in kernels for shape in SHAPES))


def multiplied(runner: CudaRunner, kernel: str, true: TrueProduct) -> Array:
    """As it comes: nobody asks what the check would say of it."""
    problem, operands = true.problem, (HostOperand(true.a), HostOperand(true.b))
    with runner.compute(problem, choice(runner, kernel, problem), *operands) as product:
        given = gathered(product.chunks())
    return np.frombuffer(given, STORAGE_DTYPES[problem.product_dtype]).reshape(problem.product_shape)


@pytest.mark.parametrize(("kernel", "dtype"), CASES, ids=lambda each: getattr(each, "name", each))
def test_no_element_is_beyond_its_bound(runner: CudaRunner, kernel: Kernel, dtype: DTypeName) -> None:
    compile_for(runner, dtype)
    proven = 0
    for true in products_of(dtype):
        bound = proven_bound(kernel, true.problem, true.of_a, true.of_b)
        if bound.normwise is None:
            continue
        worst, count = worst_of(true, bound, multiplied(runner, kernel.name, true))
        assert worst <= 1.0, (true.name, true.problem, worst, f"MATMUL_TEST_SEED={SEED}")
        proven += count > 0
    assert proven >= len(SHAPES)
