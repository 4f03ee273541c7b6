"""Which block computes which steps of which tile, by the source's own arithmetic: each once, in equal shares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from kernels.model.groups import tiles
from tests.emulation.programs import compile_host_program, output_of

HERE = Path(__file__).parent

ROWS, COLUMNS = 128, 256
LONGEST = {"stream_k": 5, "shares": 15}  # steps of a share that is the only one, by source: it is not cut again


@dataclass(frozen=True, slots=True)
class Case:
    m: int
    n: int
    batch: int
    steps: int
    blocks: int
    light: bool = False

    @property
    def tiles(self) -> int:
        return tiles(self.m, ROWS) * tiles(self.n, COLUMNS) * self.batch


class TileSegment(NamedTuple):
    block: int
    item: int
    row: int
    column: int
    first: int
    length: int
    place: int
    first_sharer: int
    last_sharer: int

    @property
    def tile(self) -> tuple[int, int, int]:
        return self.item, self.row, self.column


EVEN = Case(1024, 2048, 1, 33, 264, light=True)


def some_cases() -> Iterator[Case]:
    for m, n in ((1, 1), (1025, 1025), (4096, 4096), (4097, 4097), (8193, 1), (257, 30_000)):
        yield from (Case(m, n, 1, steps, blocks) for steps in (0, 1, 3, 33, 128) for blocks in (1, 7, 132, 264))
    rng = np.random.default_rng(8)
    for _ in range(80):
        m, n, steps = (int(size) for size in np.exp(rng.uniform(0, np.log(5000), 3)))
        yield Case(m, n, int(rng.integers(1, 6)), steps, int(rng.integers(1, 265)), bool(rng.integers(2)))
    yield EVEN
    yield Case(1, 1, 131, 2**25, 132)  # more steps than 32 bits count


@pytest.fixture(scope="module", params=LONGEST)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, list[TileSegment]]:
    """Every case's segments, block by block."""
    source, cases = HERE / f"{request.param}.cpp", list(some_cases())
    macros = (f"-DBLOCK_M={ROWS}", f"-DBLOCK_N={COLUMNS}")
    program = compile_host_program(source, tmp_path_factory.mktemp("stream_k") / source.stem, *macros)
    given = "".join(f"{case.m} {case.n} {case.batch} {case.steps} {case.blocks} {case.light:d}\n" for case in cases)
    return dict(zip(cases, map(segments_of, output_of(program, given).split("\n\n")), strict=False))


def segments_of(text: str) -> list[TileSegment]:
    return [TileSegment(*map(int, line.split())) for line in text.splitlines() if line]


def test_every_step_of_every_tile_is_computed_once(shared: dict[Case, list[TileSegment]]) -> None:
    for case, segments in shared.items():
        of_tile = defaultdict(list)
        for segment in segments:
            of_tile[segment.tile].append(segment)
        assert len(of_tile) == case.tiles, case
        for (item, row, column), parts in of_tile.items():
            assert 0 <= item < case.batch and row < case.m and column < case.n, case
            ends = [0]
            for part in sorted(parts, key=lambda part: part.first):
                assert part.first == ends[-1] and (part.length > 0 or case.steps == 0), case
                ends.append(part.first + part.length)
            assert ends[-1] == case.steps, case


def test_pieces_of_a_tile_know_each_other_and_have_places_of_their_own(shared: dict[Case, list[TileSegment]]) -> None:
    """Sharers follow each other along k; places end with what the launch makes room for."""
    for case, segments in shared.items():
        cut = [segment for segment in segments if segment.length < case.steps]
        assert [segment.place >= 0 for segment in segments] == [segment in cut for segment in segments], case
        assert len({segment.place for segment in cut}) == len(cut), case
        assert all(segment.place < case.blocks + min(case.tiles, case.blocks) for segment in cut), case
        of_tile = defaultdict(list)
        for segment in cut:
            of_tile[segment.tile].append(segment)
        for parts in of_tile.values():
            sharers = [part.block for part in sorted(parts, key=lambda part: part.first)]
            assert sharers == list(range(parts[0].first_sharer, parts[0].last_sharer + 1)), case
            assert len({(part.first_sharer, part.last_sharer) for part in parts}) == 1, case


def test_blocks_end_together(shared: dict[Case, list[TileSegment]], request: pytest.FixtureRequest) -> None:
    """Where a last wave is cut, none has much more to do than the mean; else none has more than one tile more."""
    longest = LONGEST[request.node.callspec.params["shared"]]
    for case, segments in shared.items():
        work = [0] * case.blocks
        for segment in segments:
            work[segment.block] += segment.length
        mean = sum(work) / case.blocks
        is_cut = any(segment.place >= 0 for segment in segments)
        assert max(work) <= mean + (longest if is_cut else case.steps), case


def test_what_the_cut_gains(shared: dict[Case, list[TileSegment]]) -> None:
    """Turns of 128 steps that the busiest block has: 512 tiles fill 3.88 waves of 132 blocks, and 561 of them 4.25."""
    for side, waves in ((4096, 512 / 132), (4097, 561 / 132)):
        segments = shared[Case(side, side, 1, 128, 132)]
        busiest = max(sum(segment.length for segment in segments if segment.block == block) for block in range(132))
        assert waves <= busiest / 128 < waves + 0.01


def test_shares_end_with_their_tiles_where_that_is_hardly_slower(shared: dict[Case, list[TileSegment]]) -> None:
    """33 steps, of which the last is light: four shares of a tile, and the last has it."""
    segments = shared[EVEN]
    assert len(segments) == len({segment.block for segment in segments}) == 4 * EVEN.tiles == 256
    assert all(segment.length == (9 if segment.first == 24 else 8) for segment in segments)
