"""Which cluster multiplies which stages of which tile, by the source's own arithmetic (hopper_cut.cuh): each once, thin
tiles first of those that are cut, and as the forecast says (kernels/entries/hopper_cut.py)."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from kernels.entries.hopper_cut import Cut
from kernels.model.groups import tiles
from kernels.model.sources import include_options
from tests.emulation.programs import ENVIRONMENT, FLAGS, compiler

HERE = Path(__file__).parent
GROUP = 8
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
        down, across = tiles(self.m, rows * cluster), tiles(self.n, columns)
        whole_down = down - (0 < self.m % (rows * cluster) <= rows // 2)
        whole_across = across - (0 < self.n % columns <= columns // 2)
        thin = down * across - whole_down * whole_across
        return Cut(down * across * self.batch, thin * self.batch, self.clusters, self.stages)


class Part(NamedTuple):
    block: int
    row: int
    column: int
    item: int
    columns: int  # inside C
    tile: int
    first: int
    length: int
    place: int
    first_sharer: int
    last_sharer: int


def some_cases() -> Iterator[Case]:
    for m, n in ((1, 1), (256, 512), (300, 300), (2049, 2049), (2560, 2560), (4097, 1025), (1, 9000)):
        yield from (Case(m, n, 1, stages, clusters) for stages in (0, 1, 33, 128) for clusters in (1, 7, 66))
    rng = np.random.default_rng(9)
    for _ in range(60):
        m, n, stages = (int(size) for size in np.exp(rng.uniform(0, np.log(5000), 3)))
        yield Case(m, n, int(rng.integers(1, 6)), stages, int(rng.integers(1, 133)))


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def shape(request: pytest.FixtureRequest) -> Shape:
    found: Shape = request.param
    return found


@pytest.fixture(scope="module")
def scheduled(shape: Shape, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, list[Part]]:
    """Every case's parts, block by block."""
    program, cases = tmp_path_factory.mktemp("cut") / "cut", list(some_cases())
    names = ("BLOCK_M", "BLOCK_N", "CLUSTER", "GROUP_M")
    macros = ["-DCUT", *(f"-D{name}={value}" for name, value in zip(names, (*shape, GROUP), strict=True))]
    command: list[str | Path] = [compiler(), *FLAGS, *macros, *include_options(), "-o", program, HERE / "cut.cpp"]
    subprocess.run(command, check=True, env=ENVIRONMENT)
    lines = "".join(f"{case.m} {case.n} {case.batch} {case.stages} {case.clusters}\n" for case in cases)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    return dict(zip(cases, map(parts_of, done.stdout.split("\n\n")), strict=False))


def parts_of(text: str) -> list[Part]:
    return [Part(*map(int, line.split())) for line in text.splitlines() if line]


def test_every_stage_of_every_element_is_multiplied_once(scheduled: dict[Case, list[Part]], shape: Shape) -> None:
    """Blocks of a cluster do the same below each other."""
    rows, columns, cluster = shape
    for case, parts in scheduled.items():
        places = defaultdict(list)
        for part in parts:
            below = part.block % cluster * rows
            places[part.item, part.row - below, part.column, part.columns].append((part.first, part.length, part.block))
        across = [(column, min(columns, case.n - column)) for column in range(0, case.n, columns)]
        expected = {
            (item, row, *each)
            for item in range(case.batch)
            for row in range(0, case.m, rows * cluster)
            for each in across
        }
        assert set(places) == expected, case
        for found in places.values():
            for rank in range(cluster):
                own = sorted((first, count) for first, count, block in found if block % cluster == rank)
                ends = [0, *np.cumsum([count for _, count in own]).tolist()]
                assert [first for first, _ in own] == ends[:-1] and ends[-1] == case.stages, case


def test_parts_know_each_other_and_have_places_of_their_own(scheduled: dict[Case, list[Part]], shape: Shape) -> None:
    for case, parts in scheduled.items():
        firsts = [part for part in parts if part.block % shape[2] == 0 and part.place >= 0]
        assert len({part.place for part in firsts}) == len(firsts), case
        assert all(part.place < case.clusters + min(case.cut(shape).tiles, 2 * case.clusters) for part in firsts), case
        of_tile = defaultdict(list)
        for part in firsts:
            of_tile[part.tile].append(part)
        for found in of_tile.values():
            sharers = [part.block // shape[2] for part in sorted(found, key=lambda part: part.first)]
            assert sharers == list(range(found[0].first_sharer, found[0].last_sharer + 1)), case
            assert found[0].tile < case.cut(shape).count and len({part[-2:] for part in found}) == 1, case


def test_thin_tiles_are_cut_before_others(scheduled: dict[Case, list[Part]], shape: Shape) -> None:
    rows, columns, cluster = shape
    for case, parts in scheduled.items():
        for part in parts:
            height = min(case.m - (part.row - part.block % cluster * rows), rows * cluster)
            is_thin = part.columns <= columns // 2 or height <= rows // 2
            assert is_thin is (part.tile < case.cut(shape).thin), case


def test_the_forecast_knows_what_is_cut(scheduled: dict[Case, list[Part]], shape: Shape) -> None:
    """The longest share, by the time that its stages take, and how many parts a tile has at most."""
    seen = 0
    for case, parts in scheduled.items():
        cut, shares, sharers = case.cut(shape), defaultdict[int, float](float), {1}
        of_cut = [part for part in parts if part.block % shape[2] == 0 and part.tile < cut.count]
        for part in of_cut:
            shares[part.block] += part.length * (cut.light / cut.stages if part.tile < cut.thin else 1)
            sharers.add(part.last_sharer - part.first_sharer + 1 if part.place >= 0 else 1)
        if shares:
            seen += max(sharers) > 1
            assert abs(max(shares.values()) - cut.longest) <= 2, case
            assert 0.8 * cut.parts - 1 <= max(sharers) <= cut.parts, case
            assert cut.tiles <= cut.clusters or cut.thin >= cut.count or max(sharers) <= 2, case
        assert bool(shares) is bool(cut.count), case
    assert seen > 20


def test_clusters_end_together(scheduled: dict[Case, list[Part]], shape: Shape) -> None:
    """Of those that have a share of what is cut none has much less than another."""
    for case, parts in scheduled.items():
        cut, shares = case.cut(shape), defaultdict[int, float](float)
        for part in parts:
            if part.block % shape[2] == 0 and part.tile < cut.count:
                shares[part.block] += part.length * (cut.light / cut.stages if part.tile < cut.thin else 1)
        if cut.count and not cut.of_tile:
            assert len(shares) == cut.most and max(shares.values()) - min(shares.values()) <= 3, case
