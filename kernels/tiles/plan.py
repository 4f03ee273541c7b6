"""Cuts a product into tiles that fit on a device: pure arithmetic, the same for one device and for several.

A tile is some rows of A times some columns of B, over all of k, so any kernel of the catalogue computes it and no sum
is cut: an element has the error of a product that is computed whole. Rows of A are a **panel**, and so are columns of
B. One operand's panels are the outer ones: each is brought to a device once and stays while the other's, the inner
ones, pass by, forwards and backwards in turn: those that passed last are there when the next outer panel comes. Every
panel and every tile of the product has two places, so that the next is copied while one is used.

`docs/decisions/0048-out-of-core-and-gangs.md` and `0068-tiles-at-the-kernels-rate.md` have the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import gcd
from typing import Literal

from kernels.model.numerics import DTYPES, Problem

PLACES = 2  # of panels and of tiles: one is used while the next is copied
SMALLEST = 64  # rows or columns of a tile that is cut further
GRAINS = (256, 64, 16, 1)  # tiles begin at multiples of the largest of these that a sixteenth of a tile has
FEWEST_GRAINS, FEWEST_PARTS = 16, 4  # of them in a tile; and of those that parts with digests begin at
SLICES, SLICE_ROWS = 8, 256  # that a first tile is computed in as its rows of A come, and what they are multiples of
PART_BYTES = 1 << 14  # of stored bytes that have a digest

Side = Literal["a", "b"]


@dataclass(frozen=True, slots=True)
class Span:
    """A range from `start` up to, but not including, `stop`."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of the product: of each of these items of the batch, these rows and columns."""

    number: int
    device: int  # which of those that compute the product
    items: Span
    rows: Span
    columns: Span

    def problem(self, whole: Problem) -> Problem:
        """The tile as a product of its own."""
        items = self.items.size
        of_a, of_b = whole.a_batched and items > 1, whole.b_batched and items > 1
        tile = replace(whole, m=self.rows.size, n=self.columns.size, batch=items, symmetric=False)
        return replace(tile, a_batched=of_a, b_batched=of_b)

    def items_of(self, stored: int) -> Span:
        """The tile's matrices of an operand with `stored` matrices: those of its items, or the one for all."""
        return self.items if stored > 1 else Span(0, 1)

    def panel(self, side: Side, whole: Problem) -> tuple[Span, Span]:
        """Items and rows of A, or items and columns of B, that it is computed from."""
        batched = whole.a_batched if side == "a" else whole.b_batched
        return self.items if batched else Span(0, 1), self.rows if side == "a" else self.columns


@dataclass(frozen=True, slots=True)
class TileBytes:
    """Memory of a device that one tile takes: its panels, itself, and what its kernel and its check take beside."""

    a: int
    b: int
    c: int
    beside: int
    added: int = 0  # its part of C, where alpha·A·B + beta·C is computed

    @property
    def needed(self) -> int:
        return PLACES * (self.a + self.b + self.c + self.added) + self.beside


@dataclass(frozen=True, slots=True)
class TilePlan:
    """A product in tiles. Its devices have equal numbers of outer panels, or one less."""

    problem: Problem
    outer: Side  # whose panels stay while the other's pass
    devices: int
    items: tuple[Span, ...]
    rows: tuple[Span, ...]
    columns: tuple[Span, ...]

    @property
    def key(self) -> str:
        """Equal for plans with the same tiles in the same order."""
        return f"{self.outer}{self.devices}:{len(self.items)}:{self.rows[0].stop}x{self.columns[0].stop}:turning"

    @property
    def count(self) -> int:
        return len(self.items) * len(self.rows) * len(self.columns)

    @property
    def largest_share(self) -> float:
        """The share of the product of the device that computes most."""
        cut = self.spans_of(self.outer)
        sizes, panels = [0] * self.devices, len(self.items) * len(cut)
        for place, (items, span) in enumerate(product(self.items, cut)):
            sizes[place * self.devices // panels] += items.size * span.size
        return max(sizes) / max(1, sum(sizes))

    def tiles(self) -> Iterator[Tile]:
        """The tiles in order: for each device, all tiles of an outer panel before those of the next, alternately
        forwards and backwards."""
        outer, inner = (self.rows, self.columns) if self.outer == "a" else (self.columns, self.rows)
        panels = list(product(self.items, outer))
        number, before, turns = 0, -1, False
        for place, (items, outside) in enumerate(panels):
            device = place * self.devices // len(panels)
            turns, before = device == before and not turns, device
            for inside in reversed(inner) if turns else inner:
                rows, columns = (outside, inside) if self.outer == "a" else (inside, outside)
                yield Tile(number, device, items, rows, columns)
                number += 1

    def tiles_of(self, device: int) -> tuple[Tile, ...]:
        return tuple(tile for tile in self.tiles() if tile.device == device)

    @property
    def inner(self) -> Side:
        return "b" if self.outer == "a" else "a"

    def spans_of(self, side: Side) -> tuple[Span, ...]:
        return self.rows if side == "a" else self.columns

    def is_in_parts(self, side: Side) -> bool:
        """Whether each panel of that operand is whole parts of its stored bytes, so that their digests can be taken
        where it lies on the device; the operand is read once more where it is not."""
        cut = self.spans_of(side)
        if len(cut) == 1:
            return len(self.items) == 1
        is_whole, rows = is_in_rows(self.problem, side) and self.problem.batch == 1, rows_of_parts(self.problem, side)
        return is_whole and all(span.start % rows == 0 for span in cut)

    @property
    def largest(self) -> Tile:
        """No panel and no tile takes more than those of this one, the first."""
        return next(self.tiles())


def spans(size: int, parts: int, grain: int = 1) -> tuple[Span, ...]:
    """At most so many of equal length, but for the last; they begin at round numbers where they are long, which are
    multiples of `grain` too where they are long enough for that."""
    length = -(-size // parts)
    round_to = next(each for each in GRAINS if length >= FEWEST_GRAINS * each or each == 1)
    together = round_to * grain // gcd(round_to, grain)
    round_to = together if length >= FEWEST_PARTS * together else round_to
    length = -(-length // round_to) * round_to
    return tuple(Span(start, min(start + length, size)) for start in range(0, size, length))


def slices(plan: TilePlan, tile: Tile) -> tuple[Span, ...]:
    """Rows of a first tile, from its own first one on, that are computed one after another as those of A come. One
    slice where panels are no rows that follow on each other, or the tile is small."""
    problem, size = plan.problem, tile.rows.size
    is_real_matrix = problem.batch == 1 and not DTYPES[problem.dtype].is_complex
    if plan.outer == "a" and not problem.transpose_a and is_real_matrix and size >= SLICES * SLICE_ROWS:
        length = -(-size // SLICES // SLICE_ROWS) * SLICE_ROWS
        return tuple(Span(start, min(start + length, size)) for start in range(0, size, length))
    return (Span(0, size),)


def is_in_rows(problem: Problem, side: Side) -> bool:
    """Whether panels of that operand are whole rows of it as it is stored, which follow on each other."""
    return problem.transpose_b if side == "b" else not problem.transpose_a


def rows_of_parts(problem: Problem, side: Side) -> int:
    """Stored rows after which a part of bytes that has a digest ends as well; 1 where panels are no whole rows."""
    if not is_in_rows(problem, side):
        return 1
    row_bytes = problem.k * DTYPES[problem.dtype].itemsize
    return PART_BYTES // gcd(max(row_bytes, 1), PART_BYTES)
