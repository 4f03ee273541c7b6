"""Which block computes which steps of which tile, by the source's own arithmetic: each once, in equal shares."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from kernels.model.arrange import tiles
from kernels.model.kernel import SOURCE_DIR
from tests.emulation.programs import ENVIRONMENT, FLAGS, compiler

HERE = Path(__file__).parent

ROWS, COLUMNS = 128, 256
LONGEST = {"sharing": 5, "shares": 15}  # steps of a share that is the only one, by source: it is not cut again


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


class Piece(NamedTuple):
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
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, list[Piece]]:
    """Every case's pieces, block by block."""
    program, cases = tmp_path_factory.mktemp("sharing") / request.param, list(some_cases())
    macros = [f"-DBLOCK_M={ROWS}", f"-DBLOCK_N={COLUMNS}", f"-I{SOURCE_DIR}"]
    subprocess.run(
        [compiler(), *FLAGS, *macros, "-o", program, HERE / f"{request.param}.cpp"], check=True, env=ENVIRONMENT
    )
    given = "".join(f"{case.m} {case.n} {case.batch} {case.steps} {case.blocks} {case.light:d}\n" for case in cases)
    done = subprocess.run([program], input=given, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    return dict(zip(cases, map(pieces_of, done.stdout.split("\n\n")), strict=False))


def pieces_of(text: str) -> list[Piece]:
    return [Piece(*map(int, line.split())) for line in text.splitlines() if line]


def test_every_step_of_every_tile_is_computed_once(shared: dict[Case, list[Piece]]) -> None:
    for case, pieces in shared.items():
        of_tile = defaultdict(list)
        for piece in pieces:
            of_tile[piece.tile].append(piece)
        assert len(of_tile) == case.tiles, case
        for (item, row, column), parts in of_tile.items():
            assert 0 <= item < case.batch and row < case.m and column < case.n, case
            ends = [0]
            for part in sorted(parts, key=lambda part: part.first):
                assert part.first == ends[-1] and (part.length > 0 or case.steps == 0), case
                ends.append(part.first + part.length)
            assert ends[-1] == case.steps, case


def test_pieces_of_a_tile_know_each_other_and_have_places_of_their_own(shared: dict[Case, list[Piece]]) -> None:
    """Sharers follow each other along k; places end with what the launch makes room for."""
    for case, pieces in shared.items():
        cut = [piece for piece in pieces if piece.length < case.steps]
        assert [piece.place >= 0 for piece in pieces] == [piece in cut for piece in pieces], case
        assert len({piece.place for piece in cut}) == len(cut), case
        assert all(piece.place < case.blocks + min(case.tiles, case.blocks) for piece in cut), case
        of_tile = defaultdict(list)
        for piece in cut:
            of_tile[piece.tile].append(piece)
        for parts in of_tile.values():
            sharers = [part.block for part in sorted(parts, key=lambda part: part.first)]
            assert sharers == list(range(parts[0].first_sharer, parts[0].last_sharer + 1)), case
            assert len({(part.first_sharer, part.last_sharer) for part in parts}) == 1, case


def test_blocks_end_together(shared: dict[Case, list[Piece]], request: pytest.FixtureRequest) -> None:
    """Where a last turn is cut, none has much more to do than the mean; else none has more than one tile more."""
    longest = LONGEST[request.node.callspec.params["shared"]]
    for case, pieces in shared.items():
        work = [0] * case.blocks
        for piece in pieces:
            work[piece.block] += piece.length
        mean = sum(work) / case.blocks
        is_cut = any(piece.place >= 0 for piece in pieces)
        assert max(work) <= mean + (longest if is_cut else case.steps), case


def test_what_the_cut_gains(shared: dict[Case, list[Piece]]) -> None:
    """Turns of 128 steps that the busiest block has: 512 tiles fill 3.88 turns of 132 blocks, and 561 of them 4.25."""
    for side, turns in ((4096, 512 / 132), (4097, 561 / 132)):
        pieces = shared[Case(side, side, 1, 128, 132)]
        busiest = max(sum(piece.length for piece in pieces if piece.block == block) for block in range(132))
        assert turns <= busiest / 128 < turns + 0.01


def test_shares_end_with_their_tiles_where_that_is_hardly_slower(shared: dict[Case, list[Piece]]) -> None:
    """33 steps, of which the last is light: four shares of a tile, and the last has it."""
    pieces = shared[EVEN]
    assert len(pieces) == len({piece.block for piece in pieces}) == 4 * EVEN.tiles == 256
    assert all(piece.length == (9 if piece.first == 24 else 8) for piece in pieces)
