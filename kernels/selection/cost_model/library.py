"""What the time of a library's product may be made of. Its kernels are not known: only what any kernel has to do, and
how long the best of likely ones should take."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from math import inf

import numpy as np

from kernels.model.numerics import DTYPES, Problem
from kernels.model.padding import MAX_PAD, padded_size
from kernels.selection.cost_model.sizes import RUN_BYTES, megabytes

LIKELY_TILES = ((128, 128), (256, 128), (64, 64))  # of which libraries take one for most products
WORK = 3  # place of the operations
OF_LIBRARY = 30  # terms
# Of a library that takes the best of many kernels: rows and columns of their tiles, and parts that k is cut into.
TILES = tuple(
    sides
    for rows, columns in ((256, 128), (256, 64), (128, 128), (128, 64), (128, 32), (64, 64), (64, 32))
    for sides in dict.fromkeys(((rows, columns), (columns, rows)))
)
PARTS = (1, 2, 4, 8, 16, 32)
SHORTEST = 64  # steps of k of a part
# How unlike libraries are in what a tile costs besides its operations: steps of k until it is under way, which parts of
# a sum take twice; how much slower thin tiles are, in rows; and the smallest tiles, in elements.
COSTS = ((32, 24, 0), (256, 48, 0), (64, 24, 128 * 128))
UNIT = 1e-2 / (128 * 128) / 132  # of a multiply-add: a tile of 128 × 128 and a hundred steps counts as a wave of them

_ROWS, _COLUMNS = np.array(TILES, float).T[:, :, np.newaxis]
_PARTS = np.array(PARTS, float)
# Of each cost, by tiles and parts: the work of a wave for a step of k, and steps besides.
_WAVES = [
    np.where(min_elements > _ROWS * _COLUMNS, inf, _ROWS * _COLUMNS + slower * (_ROWS + _COLUMNS))
    for _, slower, min_elements in COSTS
]
_STARTS = [start * np.minimum(_PARTS, 2) for start, _, _ in COSTS]


@lru_cache(maxsize=16_384)
def library_terms(problem: Problem, multiprocessors: int) -> tuple[float, ...]:
    """The terms of a library's time, in units of about a microsecond each."""
    return tuple(_terms(problem, multiprocessors))


def _terms(problem: Problem, multiprocessors: int) -> Iterator[float]:
    a, b, c = megabytes(problem)
    itemsize, depth = DTYPES[problem.dtype].itemsize, problem.k * 1e-2
    work = problem.batch * problem.m * problem.n * problem.k * 1e-8
    yield from (1.0, a + b, c, work, depth)
    for rows, columns in LIKELY_TILES:
        tiles = _tiles(problem, rows, columns)
        yield from (-(-tiles // multiprocessors) * depth, tiles / multiprocessors * depth, tiles / multiprocessors)
    for extent, size in ((problem.k, a), (problem.n, b + c)):
        for cut, much in ((extent, 0.0), (padded_size(extent, MAX_PAD, itemsize), work)):
            is_cut = cut * itemsize % RUN_BYTES > 0
            yield from (float(is_cut), size * is_cut, much * is_cut)
    yield from _at_best(problem, multiprocessors)
    yield max(a, b)


def _tiles(problem: Problem, rows: int, columns: int) -> int:
    return -(-problem.m // rows) * -(-problem.n // columns) * problem.batch


def _at_best(problem: Problem, multiprocessors: int) -> Iterator[float]:
    """The waves of the best tiles and number of parts, by each of COSTS."""
    usable = max(bisect_right(PARTS, problem.k // SHORTEST), 1)
    tiles = np.ceil(problem.m / _ROWS) * np.ceil(problem.n / _COLUMNS) * problem.batch
    waves = np.ceil(tiles * (_PARTS[:usable] / multiprocessors))
    steps = problem.k / _PARTS[:usable]
    for each, start in zip(_WAVES, _STARTS, strict=True):
        yield float((waves * each * (steps + start[:usable])).min()) * multiprocessors * UNIT
