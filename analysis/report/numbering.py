"""Numbers of tables and figures; tables that are too wide for a page are split by columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from analysis.report.document import UNKNOWN, Block, Figure, Items, Table, Text

PAGE_LETTERS = 96  # that a table row on an A4 page in portrait has room for
GAP_LETTERS = 2  # between columns
REFERENCE = re.compile(r"\[\[([a-z-]+)\]\]")


def numbered(blocks: Iterable[Block], plots: Collection[str]) -> list[Block]:
    """Parts with "Table 1." and "Figure 1." before captions, and with numbers in place of `[[name]]`. Figures without a
    plot are left out."""
    kept = [block for block in blocks if not isinstance(block, Figure) or block.name in plots]
    names: dict[str, str] = {}
    counted = list(_numbered(kept, names))
    return [_with_references(block, names) for block in counted]


def _numbered(blocks: Iterable[Block], names: dict[str, str]) -> Iterator[Block]:
    tables = figures = 0
    for block in blocks:
        match block:
            case Table():
                tables += 1
                names[block.name] = f"Table {tables}"
                yield from _fitting(_known_columns(replace(block, caption=f"Table {tables}. {block.caption}")))
            case Figure():
                figures += 1
                names[block.name] = f"Figure {figures}"
                yield replace(block, caption=f"Figure {figures}. {block.caption}")
            case _:
                yield block


def _known_columns(table: Table) -> Table:
    """The table without columns in which nothing is known."""
    kept = [
        column
        for column in range(len(table.head))
        if column == 0 or not table.rows or any(row[column] != UNKNOWN for row in table.rows)
    ]
    return _only(table, kept)


def _without_empty_rows(table: Table) -> Table:
    return replace(table, rows=tuple(row for row in table.rows if any(cell != UNKNOWN for cell in row[1:])))


def _only(table: Table, columns: Sequence[int]) -> Table:
    """The table with the columns at these indices."""
    head = tuple(table.head[column] for column in columns)
    return replace(table, head=head, rows=tuple(tuple(row[column] for column in columns) for row in table.rows))


def _fitting(table: Table) -> Iterator[Table]:
    """The table split by columns into tables that each begin with the first column. Cells with words are wrapped
    instead."""
    parts = [[0]] if table.words else _columns(table)
    if table.words or len(parts) == 1:
        yield table
        return
    for number, columns in enumerate(parts, start=1):
        part = f"{table.caption}, part {number} of {len(parts)}"
        yield replace(
            _without_empty_rows(_only(table, columns)), caption=part, note=table.note if number == len(parts) else ""
        )


def _columns(table: Table) -> list[list[int]]:
    """Indices of the columns of each part, with parts as equal in size as possible."""
    if not table.rows:
        return [[*range(len(table.head))]]
    columns = zip(table.head, zip(*table.rows, strict=True), strict=True)
    widths = [max(_longest_word(head), *map(len, cells)) + GAP_LETTERS for head, cells in columns]
    room = PAGE_LETTERS - widths[0]
    count = next(
        count
        for count in range(1, len(widths) + 1)
        if count >= len(widths) - 1 or all(sum(widths[c] for c in part) <= room for part in _split(len(widths), count))
    )
    return [[0, *part] for part in _split(len(widths), count)]


def _longest_word(head: str) -> int:
    """A heading can be wrapped between words, a cell cannot."""
    return max(map(len, head.split()), default=0)


def _split(columns: int, count: int) -> list[list[int]]:
    """The columns after the first in this many runs, whose lengths differ by one at most."""
    places = list(range(1, columns))
    size, more = divmod(len(places), count)
    cuts = [number * size + min(number, more) for number in range(count + 1)]
    return [places[start:stop] for start, stop in pairwise(cuts)]


def _with_references(block: Block, names: dict[str, str]) -> Block:
    def resolved(text: str) -> str:
        return REFERENCE.sub(lambda found: names.get(found[1], found[0]), text)

    match block:
        case Text() if not block.is_own:
            return replace(block, text=resolved(block.text))
        case Items():
            return replace(block, texts=tuple(map(resolved, block.texts)))
        case _:
            return block
