"""`hopper_fp64` on the CPU under sanitizers: its ring of stages, the order of its tiles, and what leaves in boxes. Bulk
copies come as late as they may, and what they are to bring or fetch nobody may touch before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kernels.entries.hopper.fp64 import HOPPER_FP64
from kernels.model.entry.config import TileConfig
from kernels.model.numerics import Problem
from tests.emulation.boxed import Case, run_of
from tests.emulation.launches import execute
from tests.emulation.programs import Emulator
from tests.support.kernels.catalogue import config_id
from tests.support.kernels.products import in_float64, operands
from worker.cuda.sources import kernel_program

(KERNEL,) = HOPPER_FP64
TILES: list[TileConfig] = [{"block_m": 64}, {"block_m": 112}, {"block_m": 128}, {"block_m": 144}]


def product(m: int, n: int, k: int, batch: int = 1, a_batched: bool = False, b_batched: bool = False) -> Problem:
    return Problem(m, n, k, "float64", batch, a_batched=a_batched, b_batched=b_batched)


def some_cases() -> Iterator[Case]:
    """Less than a box, and no k; edges of boxes, of warps' rows and of tiles; fewer stages than the ring has, and more;
    several tiles for a block, and more blocks than tiles; nine rows of tiles; batches."""
    yield Case(product(1, 1, 1), 3)
    yield Case(product(5, 6, 0), 2)
    yield Case(product(128, 128, 64), 1)
    yield Case(product(129, 260, 75), 2)
    yield Case(product(57, 33, 130), 1)
    yield Case(product(1160, 40, 20), 3)
    yield Case(product(40, 150, 100, 3, a_batched=True), 2)
    yield Case(product(70, 17, 33, 2, a_batched=True, b_batched=True), 3)
    yield Case(product(70, 17, 33, 2, b_batched=True), 1)


@pytest.mark.parametrize("asked", TILES, ids=config_id)
def test_products_to_the_last_bit(asked: TileConfig, emulator: Emulator) -> None:
    config = KERNEL.resolve_config(asked)
    rng = np.random.default_rng(5)
    cases = list(some_cases())
    pairs = [operands(case.problem, rng, "integers") for case in cases]
    runs = [
        run_of(KERNEL, config, case, pair, order) for order, (case, pair) in enumerate(zip(cases, pairs, strict=True))
    ]
    compiled = emulator.compile(kernel_program(KERNEL, config, product(1, 1, 1)), KERNEL.name)
    for case, pair, (found,) in zip(cases, pairs, execute(compiled, runs), strict=True):
        expected = in_float64(case.problem, *pair)[0].reshape(found.shape)
        np.testing.assert_array_equal(found, expected, str(case))
