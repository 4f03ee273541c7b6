"""Which blocks of `hopper_fp32` compute the last few rows and columns of C, by the source's own arithmetic: each tile
once, in about the time that others have for theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from kernels.entries.hopper.fp32 import THIN_STEPS
from kernels.model.edge import EDGE, core
from kernels.model.groups import tiles
from kernels.model.numerics import Problem
from tests.emulation.programs import compile_host_program, output_of

HERE = Path(__file__).parent

Corner = tuple[int, int, int]  # of a tile: batch, row, column
TILES = [(128, 128), (128, 256), (256, 128)]


class Case(NamedTuple):
    m: int
    n: int
    batch: int
    steps: int
    blocks: int


class TileSegment(NamedTuple):
    block: int
    thin: int
    item: int
    row: int
    column: int
    length: int


def squares(tile: tuple[int, int]) -> list[Case]:
    """One row and one column too many, and as many blocks as an H200 has room for."""
    blocks = 264 if tile == TILES[0] else 132
    return [Case(n, n, 1, n // 32 + 1, blocks) for n in (1025, 1281, 2049, 4097, 8193)]


def many(tile: tuple[int, int]) -> Case:
    """So many thin tiles that those few blocks without a whole tile in the last wave would end last."""
    return squares(tile)[0]._replace(m=33_665, n=257, steps=9)


def some_cases(tile: tuple[int, int]) -> Iterator[Case]:
    yield from (*squares(tile), many(tile))
    for m, n in ((129, 100), (100, 129), (8, 8), (1024, 1024), (136, 264), (137, 265)):
        yield from (Case(m, n, batch, 7, blocks) for batch in (1, 3) for blocks in (1, 2, 5, 264))
    rng = np.random.default_rng(3)
    for _ in range(60):
        down, across, batch, steps, blocks = (int(size) for size in np.exp(rng.uniform(0, np.log(20), 5)))
        m, n = 256 * down + int(rng.integers(12)), 256 * across + int(rng.integers(12))
        yield Case(m, n, batch, steps, 2 * blocks)


@pytest.fixture(scope="module", params=TILES, ids=str)
def tile(request: pytest.FixtureRequest) -> tuple[int, int]:
    sides: tuple[int, int] = request.param
    return sides


@pytest.fixture(scope="module")
def shared(tile: tuple[int, int], tmp_path_factory: pytest.TempPathFactory) -> dict[Case, list[TileSegment]]:
    cases = list(some_cases(tile))
    macros = [f"-DBLOCK_M={tile[0]}", f"-DBLOCK_N={tile[1]}", f"-DRECKONED={THIN_STEPS}"]
    program = compile_host_program(HERE / "thin.cpp", tmp_path_factory.mktemp("thin") / "thin", *macros)
    given = "".join(f"{case.m} {case.n} {' '.join(map(str, given_to(case, tile)))}\n" for case in cases)
    texts = (text.splitlines() for text in output_of(program, given).split("\n\n"))
    return {
        case: [TileSegment(*map(int, line.split())) for line in lines if line]
        for case, lines in zip(cases, texts, strict=False)
    }


def given_to(case: Case, tile: tuple[int, int]) -> tuple[int, ...]:
    inner = inner_of(case, tile)
    return inner.m, inner.n, case.batch, case.steps, case.blocks


def inner_of(case: Case, tile: tuple[int, int]) -> Problem:
    return core(Problem(case.m, case.n, 1, "float32"), {"edge": EDGE.default}, tile)


def corners(case: Case, tile: tuple[int, int]) -> tuple[set[Corner], set[Corner]]:
    """Of whole tiles, and of thin ones."""
    inner = inner_of(case, tile)
    found = {
        (item, row, column)
        for item in range(case.batch)
        for row in range(0, case.m, tile[0])
        for column in range(0, case.n, tile[1])
    }
    whole = {corner for corner in found if corner[1] < inner.m and corner[2] < inner.n}
    return whole, found - whole


def test_each_tile_is_computed_once(shared: dict[Case, list[TileSegment]], tile: tuple[int, int]) -> None:
    for case, segments in shared.items():
        whole, thin = corners(case, tile)
        steps = Counter[Corner]()
        for segment in segments:
            assert segment.thin == ((segment.item, segment.row, segment.column) in thin), case
            steps[segment.item, segment.row, segment.column] += segment.length
        assert dict(steps) == dict.fromkeys(whole | thin, case.steps), case
        assert len([segment for segment in segments if segment.thin]) == len(thin), case


def test_blocks_have_numbers_of_their_own(shared: dict[Case, list[TileSegment]]) -> None:
    for case, segments in shared.items():
        assert {segment.block for segment in segments} <= set(range(case.blocks)), case


def test_who_does_thin_tiles_does_not_end_last(shared: dict[Case, list[TileSegment]], tile: tuple[int, int]) -> None:
    """Later than who has most of the whole tiles, by more than each block's part if all did them."""
    for case in (*squares(tile), many(tile)):
        whole, thin = Counter[int](), Counter[int]()
        for segment in shared[case]:
            (thin if segment.thin else whole)[segment.block] += segment.length
        latest = max(whole[block] + thin[block] / THIN_STEPS for block in thin)
        part = tiles(sum(segment.thin for segment in shared[case]), case.blocks) * case.steps / THIN_STEPS
        assert latest <= max(whole.values()) + part, case


def test_a_few_blocks_do_all_thin_tiles(shared: dict[Case, list[TileSegment]], tile: tuple[int, int]) -> None:
    for case in squares(tile):
        assert 0 < len({segment.block for segment in shared[case] if segment.thin}) <= case.blocks / 8, case


def test_a_row_and_a_column_more_cost_hardly_anything(
    shared: dict[Case, list[TileSegment]], tile: tuple[int, int]
) -> None:
    """Of the busiest block, beside an even share of the whole tiles."""
    for case in squares(tile):
        work = Counter[int]()
        for segment in shared[case]:
            if not segment.thin:
                work[segment.block] += segment.length
        even = len(corners(case, tile)[0]) * case.steps / case.blocks
        assert max(work.values()) <= 1.06 * even + 3, case
