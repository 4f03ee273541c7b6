"""The parts of a report, independent of its format: headings, text, lists, tables, figures, code. Text is plain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.measurement import Measurement, size_of
from analysis.plots.by_name import PLOTS
from analysis.plots.description import number

UNKNOWN = "–"
# Characters that turn the direction of what follows, and control characters.
_TURNING = {*"\u061c\u200e\u200f", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}
_UNSEEN = str.maketrans(dict.fromkeys((*_TURNING, *map(chr, (*range(9), *range(14, 32), 127)))))


@dataclass(frozen=True, slots=True)
class Cover:
    """The title, and what is known about the report: author, date, subject."""

    title: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Heading:
    level: int  # from 2, below the title
    text: str


@dataclass(frozen=True, slots=True)
class Contents:
    """The headings of level 2, with their page numbers in print."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    strong: bool = False
    is_own: bool = False  # written by the report's author


@dataclass(frozen=True, slots=True)
class Items:
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """The first column names the row. `name`: how text refers to the table."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: bool = False  # whether cells contain words instead of figures
    name: str = ""
    note: str = ""  # below the table


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot by its name."""

    name: str
    caption: str


@dataclass(frozen=True, slots=True)
class Code:
    text: str
    language: str


Block = Cover | Contents | Heading | Text | Items | Table | Figure | Code


def seen(text: str) -> str:
    """The text without characters that are not seen: a name in an imported file could turn the figures after it around
    with them."""
    return text.translate(_UNSEEN)


def plot(name: str) -> Figure:
    return Figure(name, PLOTS[name].caption)


def figure(value: float | None) -> str:
    """A number with at least four digits."""
    return UNKNOWN if value is None else number(value)


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.1f} %"


def times(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}×"


def small(value: float | None) -> str:
    """A number for errors and residuals."""
    return UNKNOWN if value is None else f"{value:.1e}"


def counted(number_of: int, word: str) -> str:
    """For example '1 case' and '2 cases'."""
    return f"{number_of} {word}" if number_of == 1 else f"{number_of} {word}s"


def shape(one: Measurement) -> str:
    return size_of(one.m, one.n, one.k, one.batch)


def config(values: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values) or "default"


def grid(
    caption: str,
    corner: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: dict[tuple[str, str], str],
    *,
    name: str = "",
    note: str = "",
) -> Table:
    """Cells by row and column; the longer side is vertical, so that the table stays narrow."""
    if len(columns) > len(rows):
        cells = {(column, row): cell for (row, column), cell in cells.items()}
        rows, columns = columns, rows
    body = tuple((row, *(cells.get((row, column), UNKNOWN) for column in columns)) for row in rows)
    return Table(caption, (corner, *columns), body, name=name, note=note)
