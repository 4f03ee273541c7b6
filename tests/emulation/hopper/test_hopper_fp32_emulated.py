"""`hopper_fp32` on the CPU under sanitizers: its ring of stages, which segment of C is whose, and how segments are put
together again. Bulk copies come as late as they may, and what they are to bring or fetch nobody may touch before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kernels.entries.hopper.fp32 import HOPPER_FP32
from kernels.model.entry.config import TileConfig
from kernels.model.numerics import Problem
from tests.emulation.boxed import Case, run_of
from tests.emulation.launches import execute
from tests.emulation.programs import Compiled, Emulator
from tests.support.kernels.catalogue import config_id
from tests.support.kernels.products import assert_right, in_float64, operands
from worker.cuda.sources import kernel_program

(KERNEL,) = HOPPER_FP32
TILES: list[TileConfig] = [
    {"block_m": 128, "block_n": 128, "stretch": 4, "stages": 3},
    {"block_m": 128, "block_n": 256, "stretch": 8, "stages": 4},
    {"block_m": 256, "block_n": 128, "stretch": 4, "stages": 4},
    {"block_m": 128, "block_n": 128, "stretch": 4, "stages": 3, "edge": 0},
]


def product(m: int, n: int, k: int, batch: int = 1, a_batched: bool = False, b_batched: bool = False) -> Problem:
    """As the kernel's function finds it: with rows of k."""
    return Problem(m, n, k, "float32", batch, transpose_a=True, a_batched=a_batched, b_batched=b_batched)


def some_cases() -> Iterator[Case]:
    """Less than a tile, and no k; whole waves; a last wave cut among all, in segments of one tile and of two; tiles cut
    among more than two; fewer stages than the ring has, and more; batches."""
    yield Case(product(1, 1, 1), 3)
    yield Case(product(5, 6, 0), 2)
    yield Case(product(129, 260, 31), 2)
    yield Case(product(70, 65, 530), 4)
    yield Case(product(130, 258, 290), 3)
    yield Case(product(257, 300, 161), 5)
    yield Case(product(9, 34, 200, 7, a_batched=True), 3)
    yield Case(product(33, 9, 170, 5, a_batched=True, b_batched=True), 3)
    yield from thin_cases()


def thin_cases() -> Iterator[Case]:
    """Rows, columns or both that fill no more than a thin tile: one to eight of them, and one too many; blocks left for
    them, blocks that have whole tiles before, and all blocks; without k."""
    yield Case(product(129, 129, 90), 1)
    yield Case(product(264, 388, 150), 2)
    yield Case(product(260, 520, 33), 3)
    yield Case(product(133, 127, 300), 4)
    yield Case(product(100, 261, 70), 3)
    yield Case(product(265, 257, 64), 2)
    yield Case(product(257, 136, 0), 2)
    yield Case(product(257, 261, 100, 5, a_batched=True, b_batched=True), 2)
    yield Case(product(130, 133, 40, 3, a_batched=True), 2)
    yield Case(product(130, 133, 40, 3, b_batched=True), 2)
    yield Case(product(136, 1160, 20), 1)


@pytest.fixture(scope="module", params=TILES, ids=config_id)
def config(request: pytest.FixtureRequest) -> TileConfig:
    asked: TileConfig = request.param
    return KERNEL.resolve_config(asked)


@pytest.fixture(scope="module")
def compiled(config: TileConfig, emulator: Emulator) -> Compiled:
    return emulator.compile(kernel_program(KERNEL, config, product(1, 1, 1)), KERNEL.name)


def test_products_to_the_last_bit(config: TileConfig, compiled: Compiled) -> None:
    rng = np.random.default_rng(5)
    cases = list(some_cases())
    pairs = [operands(case.problem, rng, "integers") for case in cases]
    runs = [
        run_of(KERNEL, config, case, pair, order) for order, (case, pair) in enumerate(zip(cases, pairs, strict=True))
    ]
    for case, pair, (found,) in zip(cases, pairs, execute(compiled, runs), strict=True):
        expected = in_float64(case.problem, *pair)[0].reshape(found.shape)
        np.testing.assert_array_equal(found, expected, err_msg=f"{config} {case}")


@pytest.mark.parametrize("config", TILES[1:2], indirect=True, ids=config_id)
def test_the_order_of_blocks_changes_no_bit(config: TileConfig, compiled: Compiled) -> None:
    """Two tiles for five blocks: each is cut among three, of which one has a segment of both."""
    case = Case(product(200, 200, 448), 5)
    pair = operands(case.problem, np.random.default_rng(6))
    (first,), *others = execute(compiled, [run_of(KERNEL, config, case, pair, order) for order in range(3)])
    assert_right(case.problem, *pair, first[0])
    for (other,) in others:
        np.testing.assert_array_equal(other, first)
