"""Which block computes which tile, by the schedule's own source: each once, and no block much longer than others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from pathlib import Path

import numpy as np
import pytest

from kernels.model.groups import tiles
from tests.emulation.programs import compile_host_program, output_of

HERE = Path(__file__).parent

GROUP = 8
Shape = tuple[int, int, int, int]
# Rows and columns of a tile, blocks of a cluster, columns that a tile may have less.
SHAPES = [
    *((128, 256, 2, 0), (128, 256, 1, 0), (128, 64, 1, 0), (128, 192, 2, 0), (128, 256, 2, 16), (128, 256, 1, 16)),
    *((128, 224, 2, 0), (192, 144, 2, 0), (192, 192, 1, 0)),
]


@dataclass(frozen=True, slots=True)
class Case:
    """A product, and how many clusters are resident."""

    m: int
    n: int
    batch: int
    clusters: int


@dataclass(frozen=True, slots=True)
class WorkTile:
    """One tile that a block computes."""

    block: int
    wave: int
    row: int
    column: int
    item: int
    columns: int  # inside C


def some_cases() -> Iterator[Case]:
    """Sizes at, below and above tile edges, as many tiles as clusters or a few more, and some of any kind."""
    for m, n in (
        (1, 1),
        (128, 256),
        (256, 257),
        (257, 256),
        (4096, 4096),
        (4097, 4097),
        (4095, 8193),
        (8192, 8192),
        (1, 9000),
    ):
        yield from (Case(m, n, 1, clusters) for clusters in (1, 7, 66, 132))
    yield from (Case(n, n, 1, 66) for n in (2048, 4000, 8192, 16_384))
    rng = np.random.default_rng(6)
    for _ in range(60):
        m, n = (int(size) for size in np.exp(rng.uniform(0, np.log(6000), 2)))
        yield Case(m, n, int(rng.integers(1, 6)), int(rng.integers(1, 133)))


CASES = list(some_cases())


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def shape(request: pytest.FixtureRequest) -> Shape:
    found: Shape = request.param
    return found


@pytest.fixture(scope="module")
def scheduled(shape: Shape, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, list[WorkTile]]:
    """Every case's work tiles."""
    names = ("BLOCK_M", "BLOCK_N", "CLUSTER", "LESS", "GROUP_M")
    macros = [f"-D{name}={value}" for name, value in zip(names, (*shape, GROUP), strict=True)]
    program = compile_host_program(HERE / "schedule.cpp", tmp_path_factory.mktemp("schedule") / "schedule", *macros)
    lines = "".join(f"{case.m} {case.n} {case.batch} {case.clusters}\n" for case in CASES)
    return dict(zip(CASES, map(work_tiles, output_of(program, lines).split("\n\n")), strict=False))


def work_tiles(text: str) -> list[WorkTile]:
    return [WorkTile(*map(int, line.split())) for line in text.splitlines() if line]


def rows_of(found: Sequence[WorkTile]) -> dict[tuple[int, int], list[WorkTile]]:
    """Tiles next to each other, from left to right, by item and row."""
    rows = defaultdict(list)
    for tile in sorted(found, key=lambda tile: tile.column):
        rows[tile.item, tile.row].append(tile)
    return rows


def test_every_element_is_computed_once(scheduled: dict[Case, list[WorkTile]], shape: Shape) -> None:
    """In a cluster that reaches below C by blocks below C too: its blocks go together."""
    rows, columns, cluster, less = shape
    assert len(scheduled) == len(set(CASES))
    for case, found in scheduled.items():
        tall = tiles(case.m, rows * cluster) * cluster
        by_row = rows_of(found)
        assert set(by_row) == set(product(range(case.batch), range(0, tall * rows, rows))), case
        for row in by_row.values():
            ends = [0, *accumulate(tile.columns for tile in row)]
            assert [tile.column for tile in row] == ends[:-1] and ends[-1] == case.n, case
            assert all(tile.columns in (columns, columns - less) for tile in row[:-1]), case
            assert 0 < row[-1].columns <= columns, case


def test_blocks_of_a_cluster_go_together(scheduled: dict[Case, list[WorkTile]], shape: Shape) -> None:
    """In each wave below each other, in the same columns: they copy each other's part of B."""
    rows, _, cluster, _ = shape
    for case, found in scheduled.items():
        at = {(tile.block, tile.wave): tile for tile in found}
        for tile in found:
            first = at[tile.block // cluster * cluster, tile.wave]
            below = tile.block % cluster * rows
            assert (tile.row, tile.column, tile.item) == (first.row + below, first.column, first.item), case


def test_no_block_has_much_more_to_do_than_another(scheduled: dict[Case, list[WorkTile]], shape: Shape) -> None:
    """A tile with less than half of its rows or columns inside C counts as a third of one."""
    rows, columns, cluster, _ = shape
    for case, found in scheduled.items():
        work = [0.0] * (case.clusters * cluster)
        for tile in found:
            inside = tile.columns / columns
            in_cluster = min(case.m - tile.row // (rows * cluster) * rows * cluster, rows * cluster)
            is_thin = inside <= 0.5 or in_cluster <= rows / 2
            work[tile.block] += 1 / 3 if is_thin else 1
        assert max(work) - sum(work) / len(work) <= 1 + 1 / 3, case


@pytest.mark.parametrize("shape", SHAPES[:1], indirect=True)
def test_thin_tiles_fill_the_last_wave(scheduled: dict[Case, list[WorkTile]]) -> None:
    """One row and one column more than 4096 cost less than one wave more."""

    def most(found: Sequence[WorkTile]) -> int:
        return max(Counter(tile.block for tile in found if tile.row < 4096 and tile.column < 4096).values())

    even, odd = Case(4096, 4096, 1, 66), Case(4097, 4097, 1, 66)
    assert most(scheduled[even]) == most(scheduled[odd]) == 4
    thin = Counter(tile.block for tile in scheduled[odd] if tile.row >= 4096 or tile.column >= 4096)
    assert sum(thin.values()) == 2 * (17 + 16)
    busiest = {tile.block for tile in scheduled[odd] if tile.wave >= 3 and tile.row < 4096 and tile.column < 4096}
    assert max(thin[block] for block in busiest) <= 1 < max(thin.values()) <= 4


@pytest.mark.parametrize("shape", [(128, 256, 2, 16)], indirect=True)
@pytest.mark.parametrize(
    ("n", "waves", "most"), [(4096, 4, 1008), (8192, 16, 4032), (16_384, 63, 15_920), (2048, 1, 256), (4000, 4, 1024)]
)
def test_the_last_wave_is_filled_with_a_column_of_tiles_more(
    scheduled: dict[Case, list[WorkTile]], n: int, waves: int, most: int
) -> None:
    """At 4,096 of the first eight rows of tiles: 17 of them have 240 columns, but for one."""
    found = scheduled[Case(n, n, 1, 66)]
    by_block: dict[int, list[int]] = defaultdict(list)
    for tile in found:
        by_block[tile.block].append(tile.columns)
    assert max(map(len, by_block.values())) == waves
    assert max(map(sum, by_block.values())) == most
