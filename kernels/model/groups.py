"""Grouped products: rows of A in groups, of unequal sizes, each multiplied by a matrix of its own.

    C[rows of group g] = A[rows of group g]·B[g],  g = 0 … G − 1

A is (m, k), B (G, k, n), C (m, n); the sizes of all groups add up to m, and any may be 0. It is what
`jax.lax.ragged_dot` and `torch._grouped_mm` compute for layers of experts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from kernels.model.numerics import DTypeName, Problem

MAX_GROUPS = 1024  # they are part of a job's record


class TilesOf(Protocol):
    def __call__(self, problem: Problem, config: Mapping[str, int]) -> int: ...


# For each group the tiles of C and the rows before its own; at last how many there are.
GroupTable = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One product of a grouped one."""

    index: int  # of its matrix in B
    first_row: int
    problem: Problem


@dataclass(frozen=True, slots=True)
class Grouped:
    """A kernel takes groups, of operands of these types. `tiles`: the number of tiles of one group's product, none of
    which crosses into the next group; None for a library, which is called for each group. `configs`: to start from, if
    those of plain products do not suit groups."""

    dtypes: tuple[DTypeName, ...]
    tiles: TilesOf | None = None
    configs: tuple[Mapping[str, int], ...] = ()


def tiles(extent: int, tile: int) -> int:
    return -(-extent // tile)


def tile_rows(problem: Problem, rows: int) -> int:
    """Rows of tiles that C is cut into."""
    return sum(tiles(size, rows) for size in problem.group_sizes or (problem.m,))


def group_table(problem: Problem, tiles_of: Callable[[Problem], int]) -> GroupTable:
    """`tiles_of`: how many tiles the product of one group has."""
    entries, first_tile, first_row = [], 0, 0
    for size in problem.group_sizes:
        entries.append((first_tile, first_row))
        first_tile += tiles_of(replace(problem, m=size, group_sizes=())) if size else 0
        first_row += size
    return (*entries, (first_tile, first_row))


def tile_count(problem: Problem, tiles_of: Callable[[Problem], int]) -> int:
    """The number of tiles of all groups."""
    return sum(tiles_of(group.problem) for group in groups_of(problem))


def table_of(grouped: Grouped | None, problem: Problem, config: Mapping[str, int]) -> GroupTable:
    """Empty without groups, and of a library."""
    if not problem.group_sizes or grouped is None or grouped.tiles is None:
        return ()
    return group_table(problem, partial(grouped.tiles, config=config))


def with_groups(problem: Problem, sizes: tuple[int, ...]) -> Problem:
    """The grouped product of a plain A and a batch of matrices, in place of the product of each with all of A."""
    return replace(problem, batch=1, b_batched=False, group_sizes=sizes)


def groups_of(problem: Problem) -> Iterator[Group]:
    """The groups that have rows."""
    first_row = 0
    for index, size in enumerate(problem.group_sizes):
        if size:
            yield Group(index, first_row, replace(problem, m=size, group_sizes=()))
        first_row += size
