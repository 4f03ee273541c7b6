"""Which cluster multiplies which stages of which tile, by the source's own arithmetic (hopper_cut.cuh): each once, in
as many parts as the forecast says (kernels/entries/hopper/cut.py)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from kernels.entries.hopper.cut import SHORTEST, Cut
from kernels.model.groups import tiles
from tests.emulation.programs import compile_host_program, output_of

HERE = Path(__file__).parent
Shape = tuple[int, int, int]
SHAPES: list[Shape] = [(128, 256, 2), (128, 64, 1)]  # rows and columns of a tile, blocks of a cluster


@dataclass(frozen=True, slots=True)
class Case:
    m: int
    n: int
    batch: int
    stages: int
    clusters: int

    def cut(self, shape: Shape) -> Cut:
        rows, columns, cluster = shape
        return Cut(tiles(self.m, rows * cluster) * tiles(self.n, columns) * self.batch, self.clusters, self.stages)


class Part(NamedTuple):
    block: int
    row: int
    column: int
    item: int
    columns: int  # inside C
    tile: int
    part: int
    first: int
    end: int


def some_cases() -> Iterator[Case]:
    for m, n in ((1, 1), (256, 512), (300, 300), (2049, 2049), (2560, 2560), (4097, 1025), (1, 9000)):
        yield from (Case(m, n, 1, stages, clusters) for stages in (0, 1, 33, 128) for clusters in (1, 7, 66))
    yield from (Case(m, n, 2, 313, 132) for m in (100, 300) for n in (64, 300, 1000))
    rng = np.random.default_rng(9)
    for _ in range(60):
        m, n, stages = (int(size) for size in np.exp(rng.uniform(0, np.log(5000), 3)))
        yield Case(m, n, int(rng.integers(1, 6)), stages, int(rng.integers(1, 133)))


CASES = list(some_cases())


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def shape(request: pytest.FixtureRequest) -> Shape:
    found: Shape = request.param
    return found


@pytest.fixture(scope="module")
def scheduled(shape: Shape, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, list[Part]]:
    """Every case's parts, block by block."""
    names = ("BLOCK_M", "BLOCK_N", "CLUSTER")
    macros = ["-DCUT", *(f"-D{name}={value}" for name, value in zip(names, shape, strict=True))]
    program = compile_host_program(HERE / "cut.cpp", tmp_path_factory.mktemp("cut") / "cut", *macros)
    lines = "".join(f"{case.m} {case.n} {case.batch} {case.stages} {case.clusters}\n" for case in CASES)
    return dict(zip(CASES, map(parts_of, output_of(program, lines).split("\n\n")), strict=False))


def parts_of(text: str) -> list[Part]:
    return [Part(*map(int, line.split())) for line in text.splitlines() if line]


def test_every_stage_of_every_element_is_multiplied_once(scheduled: dict[Case, list[Part]], shape: Shape) -> None:
    """Blocks of a cluster do the same below each other; parts are as long as each other, but for a stage."""
    rows, _, cluster = shape
    assert len(scheduled) == len(set(CASES))
    for case, parts in scheduled.items():
        places = defaultdict(list)
        for part in parts:
            below = part.block % cluster * rows
            places[part.item, part.row - below, part.column, part.columns].append(part)
        assert set(places) == places_of(case, shape), case
        for found in places.values():
            assert len({part.tile for part in found}) == 1, case
            for rank in range(cluster):
                own = sorted((part for part in found if part.block % cluster == rank), key=lambda part: part.part)
                assert [part.part for part in own] == list(range(case.cut(shape).parts)), case
                assert [part.first for part in own] == [0, *(part.end for part in own[:-1])], case
                assert own[-1].end == case.stages, case
                lengths = [part.end - part.first for part in own]
                assert max(lengths) - min(lengths) <= 1, case


def places_of(case: Case, shape: Shape) -> set[tuple[int, int, int, int]]:
    """Item, first row and column of each tile of a cluster, and its columns inside C."""
    rows, columns, cluster = shape
    across = [(column, min(columns, case.n - column)) for column in range(0, case.n, columns)]
    down = range(0, case.m, rows * cluster)
    return {(item, row, *each) for item in range(case.batch) for row in down for each in across}


def test_who_has_a_part_has_no_other(scheduled: dict[Case, list[Part]], shape: Shape) -> None:
    """There is room for the sums of as many parts as there are clusters, and no part is shorter than it may be."""
    seen = 0
    for case, parts in scheduled.items():
        cut = case.cut(shape)
        if cut.parts > 1:
            seen += 1
            assert len({part.block for part in parts}) == len(parts), case
            assert max(part.tile * cut.parts + part.part for part in parts) < case.clusters, case
            assert all(part.end - part.first >= SHORTEST for part in parts), case
        turns = Counter(part.block for part in parts).values()
        assert max(turns) == tiles(cut.tiles * cut.parts, case.clusters), case
    assert seen > 10
