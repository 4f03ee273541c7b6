"""What a report is made of, whatever it is written in: headings, text, lists, tables, figures, code. Text is plain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.measurement import Measurement
from analysis.plots.by_name import PLOTS
from analysis.plots.description import number

UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class Heading:
    level: int  # 1 for the title
    text: str


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """The first column names the row."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: bool = False  # cells are words, not figures


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot by its name."""

    name: str
    caption: str


@dataclass(frozen=True, slots=True)
class Code:
    text: str
    language: str


Block = Heading | Text | Items | Table | Figure | Code


def plot(name: str) -> Figure:
    return Figure(name, PLOTS[name].caption)


def figure(value: float | None) -> str:
    """To four digits at least."""
    return UNKNOWN if value is None else number(value)


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.1f} %"


def times(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}×"


def small(value: float | None) -> str:
    """Errors and residuals."""
    return UNKNOWN if value is None else f"{value:.1e}"


def shape(one: Measurement) -> str:
    return f"{one.n}" if one.m == one.n == one.k else f"{one.m}×{one.n}×{one.k}"


def config(values: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values) or "default"


def grid(
    caption: str, corner: str, rows: Sequence[str], columns: Sequence[str], cells: dict[tuple[str, str], str]
) -> Table:
    """Cells by row and column; the longer side goes down, so that the table stays narrow."""
    if len(columns) > len(rows):
        cells = {(column, row): cell for (row, column), cell in cells.items()}
        rows, columns = columns, rows
    body = tuple((row, *(cells.get((row, column), UNKNOWN) for column in columns)) for row in rows)
    return Table(caption, (corner, *columns), body)
