"""Grouped products of the Hopper kernels on the CPU under sanitizers, the whole kernel: which tile belongs to which
group, and what is stored where a group ends within a box of C. Matrix instructions and bulk copies come as late as they
may."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from tests.emulation.boxed import Case, map_numbers, run_of
from tests.emulation.launches import Memory, Run, execute
from tests.emulation.programs import Emulator
from tests.support.grouped.operands import grouped_operands, grouped_problem, true_product
from tests.support.kernels.products import stored
from worker.cuda.sources import kernel_program

KERNEL = BY_NAME["hopper_bf16"]
# Rows of groups, columns, steps of k, and multiprocessors: one row; ends of boxes, of warps' rows and of tiles; empty
# groups first, last and between; several tiles for a block, more groups than blocks; no k.
CASES: tuple[tuple[tuple[int, ...], int, int, int], ...] = (
    ((1,), 1, 1, 2),
    ((3, 0, 17, 16, 1), 70, 65, 2),
    ((0, 0, 129, 64, 0, 65, 0), 130, 40, 1),
    ((5,) * 9, 64, 129, 2),
    ((2, 1), 9, 0, 2),
)
ROW_BOX = 16  # rows of C that are stored at once
NOT_WRITTEN = 0x7FC1  # a NaN that no product is


def grouped_run(config: TileConfig, case: Case, pair: tuple[Array, Array], order: int) -> Run:
    """C twice: what is stored in boxes, and what row by row."""
    assert isinstance(KERNEL, CudaKernel)
    plan = KERNEL.plan(case.problem, config)
    assert plan.boxes is not None and plan.boxes.c_row is not None
    plain = run_of(KERNEL, config, case, pair, order)
    a, b, c = plain.memories
    c = replace(c, contents=np.full(c.shape, NOT_WRITTEN, c.dtype).tobytes())
    maps, sizes = plain.numbers[: 3 * 8], [*plain.numbers[3 * 8 :]]
    sizes[3] = len(case.problem.group_sizes)
    table = Memory.flat(np.array(plan.groups, np.int32))
    numbers = (*maps, *map_numbers(c, plan.boxes.c_row), *sizes)
    return replace(plain, memories=(a, b, c, c, table), numbers=numbers)


def stored_by_rows(problem: Problem) -> Array:
    """Of which rows: those of a box that does not lie in its group as a whole."""
    found = [row - row % ROW_BOX + ROW_BOX > size for size in problem.group_sizes for row in range(size)]
    return np.array(found, np.bool_)


@pytest.mark.parametrize("tile", [(128, 64), (192, 144)])
def test_each_row_has_its_own_matrix(emulator: Emulator, tile: tuple[int, int]) -> None:
    assert isinstance(KERNEL, CudaKernel)
    config = KERNEL.resolve_config({"block_m": tile[0], "block_n": tile[1], "stages": 3, "cluster": 1})
    rng = np.random.default_rng(3)
    cases = [
        Case(grouped_problem(sizes, n, k, "bfloat16", transpose_b=True), multiprocessors)
        for sizes, n, k, multiprocessors in CASES
    ]
    pairs = [grouped_operands(case.problem, rng, "integers") for case in cases]
    runs = [grouped_run(config, *each, order) for order, each in enumerate(zip(cases, pairs, strict=True))]
    compiled = emulator.compile(kernel_program(KERNEL, config, cases[0].problem), KERNEL.name)
    for case, pair, (boxes, rows) in zip(cases, pairs, execute(compiled, runs), strict=True):
        expected = stored(true_product(case.problem, *pair), "bfloat16")
        by_rows = stored_by_rows(case.problem)[:, np.newaxis]
        np.testing.assert_array_equal(np.where(by_rows, rows[0], boxes[0]), expected, str(case))
        assert (np.where(by_rows, boxes[0], rows[0]) == NOT_WRITTEN).all(), case
