"""Which tiles of a symmetric product are computed, by the source's own arithmetic: each that has elements on or below
the diagonal, once, and no other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from kernels.model.groups import tiles
from kernels.model.numerics import Problem
from kernels.model.triangle import triangle_tiles
from tests.emulation.programs import compile_host_program, output_of

SHAPES = ((128, 256, 2), (128, 192, 2), (128, 128, 2), (128, 128, 1), (128, 64, 1), (128, 192, 1), (128, 256, 1))
NAMED = (1, 64, 127, 128, 129, 256, 257, 383, 385, 1000, 2048, 2049, 4096, 4097)
RNG = np.random.default_rng(63)
CASES = [(n, clusters) for n in NAMED for clusters in (1, 66, 132)]
CASES += [(int(n), int(RNG.integers(1, 133))) for n in np.exp(RNG.uniform(0, np.log(6000), 40))]
Tile = tuple[int, int, int, int]  # block, row, column, columns inside C


@pytest.fixture(scope="module")
def scheduled(tmp_path_factory: pytest.TempPathFactory) -> list[list[Tile]]:
    """Of every case in every shape."""
    source = Path(__file__).parent / "triangle.cpp"
    program = compile_host_program(source, tmp_path_factory.mktemp("triangle") / "triangle")
    given = "".join(f"{n} {clusters}\n" for n, clusters in CASES)
    texts = output_of(program, given).split("\n\n")[:-1]
    lines = ([line.split() for line in text.splitlines() if line] for text in texts)
    return [[(int(a), int(b), int(c), int(d)) for a, b, c, d in tile] for tile in lines]


def test_the_lower_triangle_is_covered_once(scheduled: list[list[Tile]]) -> None:
    """And a cluster's blocks go together, below C too; all it does is what the launch counts."""
    for number, found in enumerate(scheduled):
        n, clusters = CASES[number // len(SHAPES)]
        rows, columns, cluster = SHAPES[number % len(SHAPES)]
        tall = rows * cluster
        expected = {
            (first + rank * rows, column)
            for first in range(0, n, tall)
            for column in range(0, min(n, first + tall), columns)
            for rank in range(cluster)
        }
        assert Counter((row, column) for _, row, column, _ in found) == Counter(expected), (n, clusters, rows, columns)
        assert all(width == min(columns, n - column) for _, _, column, width in found)
        assert len(found) == cluster * triangle_tiles(Problem(n, n, 1, "float32"), tall, columns)


def test_no_block_has_more_than_one_tile_more(scheduled: list[list[Tile]]) -> None:
    for number, found in enumerate(scheduled):
        (n, clusters), (*_, cluster) = CASES[number // len(SHAPES)], SHAPES[number % len(SHAPES)]
        busiest = max(Counter(block for block, *_ in found).values())
        assert busiest == tiles(len(found), clusters * cluster), (n, clusters)
