"""What the time of a library's product may be made of. Its kernels are not known: only what any kernel has to do, and
how long the best of likely ones should take."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from kernels.model.numerics import DTYPES, Problem
from kernels.model.padding import MAX_PAD, padded_size
from kernels.selection.paces.sizes import RUN_BYTES, megabytes

LIKELY_TILES = ((128, 128), (256, 128), (64, 64))  # of which libraries take one for most products
WORK = 3  # place of the operations
OF_LIBRARY = 30  # terms
# Of a library that takes the best of many kernels: rows and columns of their tiles, and parts that k is cut into.
TILES = tuple(
    sides
    for rows, columns in ((256, 128), (256, 64), (128, 128), (128, 64), (128, 32), (64, 64), (64, 32))
    for sides in dict.fromkeys(((rows, columns), (columns, rows)))
)
SPLITS = (1, 2, 4, 8, 16, 32)
SHORTEST = 64  # steps of k of a part
# How unlike libraries are in what a tile costs besides its operations: steps of k until it is under way, which parts of
# a sum take twice, and how much slower thin tiles are, in rows. The last takes large tiles only.
COSTS = ((32, 24), (256, 48), (64, 24))
LARGE = 128 * 128  # elements
UNIT = 1e-2 / LARGE / 132  # of a multiply-add: a large tile of a hundred steps counts as one, as a wave does


@lru_cache(maxsize=16_384)
def library_terms(problem: Problem, multiprocessors: int) -> tuple[float, ...]:
    """In units that take about a microsecond each."""
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


def _at_best(problem: Problem, multiprocessors: int) -> list[float]:
    """The waves of the best tiles and number of parts, by each of COSTS."""
    best = [float("inf")] * len(COSTS)
    for rows, columns in TILES:
        tiles, thin = _tiles(problem, rows, columns), 1 / rows + 1 / columns
        for parts in SPLITS:
            if parts > 1 and problem.k < SHORTEST * parts:
                break
            waves = -(-tiles * parts // multiprocessors) * rows * columns
            for each, (start, slower) in enumerate(COSTS):
                if each == len(COSTS) - 1 and rows * columns < LARGE:
                    continue
                steps = problem.k / parts + start * (1 if parts == 1 else 2)
                best[each] = min(best[each], waves * steps * (1 + slower * thin))
            if tiles * parts > 2 * multiprocessors:
                break
    return [each * multiprocessors * UNIT for each in best]
