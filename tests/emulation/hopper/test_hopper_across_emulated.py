"""Kernels for Hopper with B as it lies, on the CPU under sanitizers: which words or bytes of B come into which
registers, when they are free again, and where sums go in C. Matrix instructions and bulk copies come as late as they
may."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.emulation.boxed import Case, run_of
from tests.emulation.launches import execute
from tests.emulation.programs import Compiled, Emulator
from tests.support.kernels.products import exact, in_float64, operands
from worker.cuda.sources import kernel_program

Variant = tuple[str, DTypeName, TileConfig]
TILES = [
    {"block_n": 64, "stages": 3},
    {"block_n": 160, "stages": 5},
    {"block_n": 192, "stages": 5},
    {"block_n": 256, "stages": 4},
    {"block_m": 192, "block_n": 176, "stages": 3},
    {"block_m": 192, "block_n": 192, "stages": 4},
]
KERNELS: list[Variant] = [("hopper_tf32", "float32", {}), ("hopper_int8", "int8", {})]
VARIANTS: list[Variant] = [(name, dtype, {**own, **tile}) for name, dtype, own in KERNELS for tile in TILES]


def some_cases(dtype: DTypeName) -> Iterator[Case]:
    """Less than a box, and no k; one stage, as many as the ring has, and more; edges of boxes, of tiles and of halves
    of tiles, which are cut short; several tiles for a block; batches."""
    step = 128 // DTYPES[dtype].itemsize
    yield Case(Problem(1, 1, 1, dtype), 2)
    yield Case(Problem(5, 6, 0, dtype), 2)
    yield Case(Problem(64, 128, step, dtype), 1)
    yield Case(Problem(65, 33, 4 * step + 1, dtype), 1)
    yield Case(Problem(17, 129, step - 1, dtype), 1)
    yield Case(Problem(257, 96, step + 1, dtype), 2)
    yield Case(Problem(300, 200, 9 * step + 12, dtype), 2)
    yield Case(Problem(490, 40, step + 1, dtype), 1)  # two tiles, neither of which is as wide as can be
    yield Case(Problem(209, 337, 2 * step + 3, dtype), 2)  # edges in the columns of each of three warpgroups
    yield Case(Problem(31, 130, 5 * step, dtype), 1)
    yield Case(Problem(40, 70, 2 * step + 1, dtype, 3, b_batched=True), 1)
    yield Case(Problem(33, 9, 2 * step + 6, dtype, 4, a_batched=True, b_batched=True), 3)


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda v: "-".join((v[0], *map(str, v[2].values()))))
def variant(request: pytest.FixtureRequest) -> Variant:
    name, dtype, settings = request.param
    return name, dtype, BY_NAME[name].resolve_config({**settings, "cluster": 1})


@pytest.fixture(scope="module")
def compiled(variant: Variant, emulator: Emulator) -> Compiled:
    name, dtype, config = variant
    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    return emulator.compile(kernel_program(kernel, config, Problem(1, 1, 1, dtype)), name)


def test_products_to_the_last_bit(variant: Variant, compiled: Compiled) -> None:
    """Of float32 by small integers; of bytes by their whole range."""
    name, dtype, config = variant
    kernel, rng = BY_NAME[name], np.random.default_rng(7)
    assert isinstance(kernel, CudaKernel)
    cases = list(some_cases(dtype))
    pairs = [operands(case.problem, rng, "integers" if dtype == "float32" else "normal") for case in cases]
    runs = [
        run_of(kernel, config, case, pair, order) for order, (case, pair) in enumerate(zip(cases, pairs, strict=True))
    ]
    for case, pair, (found,) in zip(cases, pairs, execute(compiled, runs), strict=True):
        expected = in_float64(case.problem, *pair)[0] if dtype == "float32" else exact(case.problem, *pair)
        np.testing.assert_array_equal(found, expected.reshape(found.shape), err_msg=f"{config} {case}")
