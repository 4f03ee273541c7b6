"""The CUDA kernels themselves, run on the CPU under sanitizers: no element outside the operands is touched, every
element of the product is written, in whatever order threads take turns, and all comes out to the last bit."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from kernels.model.kernel import CudaKernel
from tests.emulation.launches import execute
from tests.emulation.products import Case, after_passes, cases, numbers, product, run_of
from tests.emulation.programs import Emulator
from tests.emulation.variants import TRANSPOSES, Variant, defaults_of, emulated_kernels, variants, variants_of
from tests.support.kernels.products import assert_right


def multiply(variant: Variant, emulator: Emulator) -> None:
    """All cases of one variant. Raises AssertionError where a product is wrong or the program ended itself."""
    compiled = emulator.compile(variant.program, variant.name)
    todo = list(cases(variant.kernel, variant.config, variant.kind))
    runs = [run_of(variant.kernel, variant.config, case, order) for order, case in enumerate(todo)]
    runs = after_passes(variant.kernel, variant.config, todo, runs, partial(emulator.compile, variant.program))
    for case, (found,) in zip(todo, execute(compiled, runs), strict=True):
        np.testing.assert_array_equal(found, product(case.problem, case.data), f"{variant}: {case}")


@pytest.fixture(scope="module")
def multiplied(request: pytest.FixtureRequest, emulator: Emulator, pool: Executor) -> Mapping[Variant, Future[None]]:
    """The variants of all tests that were asked for, under way since before the first of them."""
    tests = (item for item in request.session.items if isinstance(item, pytest.Function))
    asked = [test.callspec.params["variant"] for test in tests if "multiplied" in test.fixturenames]
    return {variant: pool.submit(multiply, variant, emulator) for variant in asked if isinstance(variant, Variant)}


@pytest.mark.parametrize("variant", variants(), ids=str)
def test_a_kernel_multiplies(variant: Variant, multiplied: Mapping[Variant, Future[None]]) -> None:
    multiplied[variant].result()


@pytest.mark.parametrize(
    "variant",
    [v for v in variants() if (v.kernel.workspace or "cluster" in v.config) and v.dtype == "float32"][::3],
    ids=str,
)
def test_the_order_of_blocks_changes_no_bit(variant: Variant, emulator: Emulator) -> None:
    problem = replace(variant.kind, m=9, n=34, k=300)
    compiled = emulator.compile(variant.program, variant.name)
    runs = [run_of(variant.kernel, variant.config, Case(problem, ("odd",) * 3, "normal"), order) for order in range(4)]
    (first,), *others = execute(compiled, runs)
    assert_right(problem, *numbers(problem, "normal"), first[0])
    for (other,) in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize("kernel", emulated_kernels(), ids=lambda kernel: kernel.name)
def test_the_sample_covers_a_kernel(kernel: CudaKernel) -> None:
    sample = list(variants_of(kernel))
    assert {variant.dtype for variant in sample} == set(kernel.dtypes)
    assert {variant.transposes for variant in sample} == set(TRANSPOSES)
    assert len({variant.settings for variant in sample}) >= min(4, len(list(kernel.configs())))
    for dtype in kernel.dtypes:
        own = [variant for variant in sample if variant.dtype == dtype]
        for operand in (0, 1):
            assert {variant.transposes[operand] for variant in own} == {False, True}
        assert {tuple(config.items()) for config in defaults_of(kernel, dtype)} <= {each.settings for each in sample}
