"""Long tables as lines of text in a font of one width, for paper.

WeasyPrint takes about 2 ms of processor time for each cell of a table, whatever its style, so a report of 4,900 cases
took a minute and a half. A line of text costs it a quarter of a millisecond for each cell.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from textwrap import wrap

from analysis.report.document import Table, seen

LONG_ROWS = 100  # of a table from which on it is set in lines
LINE_LETTERS = 100  # that fit the width of a page
GAP_LETTERS, MAX_GAP_LETTERS = 2, 12  # between columns
NAME_LETTERS = 24  # of the first column, whose names may be broken further than figures
RULED_ROWS = 5  # rows between two rules, for the eye to follow
ONE_WIDTH = re.compile(r"[ -~\xa0-\xac\xae-\u024f–—†‡•…’≤≥−\u202f]*")  # letters that every such font has


def escape(text: str) -> str:
    return html.escape(seen(text))


def is_long(table: Table) -> bool:
    """Whether the table is cheaper in lines, and its letters have one width."""
    cells = (cell for row in (table.head, *table.rows) for cell in row)
    return len(table.rows) > LONG_ROWS and all(map(ONE_WIDTH.fullmatch, cells))


def to_lines(table: Table) -> str:
    """The table as HTML: one cell, which breaks between pages, below a heading that each page repeats. A table too wide
    for the page is several, one after the other: a figure in several lines would be read as several figures."""
    note = f'\n<p class="note">{escape(table.note)}</p>' if table.note else ""
    return f'<div class="lines">{"".join(map(_as_lines, _parts(table)))}{note}</div>'


def _as_lines(table: Table) -> str:
    widths = _widths(table)
    gap = " " * _gap(widths)
    head = "\n".join(_lines(table.head, widths, gap, is_left=table.words, is_head=True))
    rows = ["\n".join(_lines(row, widths, gap, is_left=table.words)) for row in table.rows]
    groups = ("\n".join(rows[first : first + RULED_ROWS]) for first in range(0, len(rows), RULED_ROWS))
    body = "\n".join(f"<pre>{escape(group)}</pre>" for group in groups)
    return (
        f"<table>\n<caption>{escape(table.caption)}</caption>\n"
        f"<thead><tr><th><pre>{escape(head)}</pre></th></tr></thead>\n<tbody><tr><td>\n{body}\n</td></tr></tbody>\n"
        "</table>"
    )


def _parts(table: Table) -> list[Table]:
    """The table, or tables with its first column and as many of the others as fit side by side."""
    name, *figures = _least_widths(table)
    groups: list[list[int]] = [[0]]
    room = LINE_LETTERS - name
    for column, width in enumerate(figures, 1):
        room -= GAP_LETTERS + width
        if room < 0 and len(groups[-1]) > 1:
            groups.append([0])
            room = LINE_LETTERS - name - GAP_LETTERS - width
        groups[-1].append(column)
    if table.words or len(groups) == 1:
        return [table]
    return [
        replace(
            table,
            caption=f"{table.caption}, part {number} of {len(groups)}",
            head=tuple(table.head[column] for column in group),
            rows=tuple(tuple(row[column] for column in group) for row in table.rows),
        )
        for number, group in enumerate(groups, 1)
    ]


def _least_widths(table: Table) -> list[int]:
    """Letters that each column needs. Words may be broken, and names to some length."""
    if table.words:
        return [1] * len(table.head)
    name, *figures = (max(map(len, cells)) for cells in zip(*table.rows, strict=True))
    first = min(name, NAME_LETTERS)
    return [first, *(min(width, LINE_LETTERS - first - GAP_LETTERS) for width in figures)]


def _widths(table: Table) -> list[int]:
    """Letters of each column: of its longest cell, and less in the widest ones if a line would be too long."""
    columns = zip(table.head, zip(*table.rows, strict=True), strict=True)
    widths = [max(*map(len, head.split() or [""]), *map(len, cells)) for head, cells in columns]
    least = _least_widths(table)
    while sum(widths) + GAP_LETTERS * (len(widths) - 1) > LINE_LETTERS:
        free = [column for column, width in enumerate(widths) if width > least[column]]
        widths[max(free, key=widths.__getitem__)] -= 1
    return widths


def _gap(widths: Sequence[int]) -> int:
    gaps = max(1, len(widths) - 1)
    return min(MAX_GAP_LETTERS, (LINE_LETTERS - sum(widths)) // gaps)


def _lines(
    row: Sequence[str], widths: Sequence[int], gap: str, *, is_left: bool, is_head: bool = False
) -> Iterator[str]:
    """One row: as many lines as its longest cell needs. The last line of a heading is the lowest of every column."""
    cells = [
        [cell] if len(cell) <= width else wrap(cell, width)
        for cell, width in zip((cell.replace("\u202f", "\xa0") for cell in row), widths, strict=True)
    ]
    if is_head:
        height = max(map(len, cells))
        cells = [[""] * (height - len(cell)) + cell for cell in cells]
    for line in zip_longest(*cells, fillvalue=""):
        placed = (
            part.ljust(width) if is_left or number == 0 else part.rjust(width)
            for number, (part, width) in enumerate(zip(line, widths, strict=True))
        )
        yield gap.join(placed).rstrip()
