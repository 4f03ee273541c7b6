"""`hopper_tf32` with B as it lies, on the CPU under sanitizers: which words of B come into which registers, when they
are free again, and where sums go in C. Matrix instructions and bulk copies come as late as they may."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kernels.entries.hopper import TF32
from kernels.kernel import CudaKernel, TileConfig
from kernels.numerics import Problem
from tests.emulation.boxed import Case, run_of
from tests.emulation.launches import execute
from tests.emulation.programs import Compiled, Emulator
from tests.support.products import in_float64, operands
from worker.sources import kernel_program

(KERNEL,) = TF32
TILES = [{"block_n": 64, "stages": 3}, {"block_n": 192, "stages": 4}, {"block_n": 256, "stages": 4}]


def some_cases() -> Iterator[Case]:
    """Less than a box, and no k; one stage, as many as the ring has, and more; edges of boxes, of tiles and of halves
    of tiles, which are cut short; several tiles for a block; batches."""
    yield Case(Problem(1, 1, 1, "float32"), 2)
    yield Case(Problem(5, 6, 0, "float32"), 2)
    yield Case(Problem(64, 128, 32, "float32"), 1)
    yield Case(Problem(65, 33, 129, "float32"), 1)
    yield Case(Problem(17, 129, 31, "float32"), 1)
    yield Case(Problem(257, 96, 33, "float32"), 2)
    yield Case(Problem(300, 200, 300, "float32"), 2)
    yield Case(Problem(40, 70, 65, "float32", 3, b_batched=True), 1)
    yield Case(Problem(33, 9, 70, "float32", 4, a_batched=True, b_batched=True), 3)


@pytest.fixture(scope="module", params=TILES, ids=lambda config: "-".join(map(str, config.values())))
def config(request: pytest.FixtureRequest) -> TileConfig:
    return KERNEL.resolve_config({**request.param, "cluster": 1})


@pytest.fixture(scope="module")
def compiled(config: TileConfig, emulator: Emulator) -> Compiled:
    assert isinstance(KERNEL, CudaKernel)
    return emulator.compile(kernel_program(KERNEL, config, Problem(1, 1, 1, "float32")), KERNEL.name)


def test_products_to_the_last_bit(config: TileConfig, compiled: Compiled) -> None:
    assert isinstance(KERNEL, CudaKernel)
    rng = np.random.default_rng(7)
    cases = list(some_cases())
    pairs = [operands(case.problem, rng, "integers") for case in cases]
    runs = [
        run_of(KERNEL, config, case, pair, order) for order, (case, pair) in enumerate(zip(cases, pairs, strict=True))
    ]
    for case, pair, (found,) in zip(cases, pairs, execute(compiled, runs), strict=True):
        expected = in_float64(case.problem, *pair)[0].reshape(found.shape)
        np.testing.assert_array_equal(found, expected, err_msg=f"{config} {case}")
