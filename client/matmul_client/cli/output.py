"""How answers look: tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from matmul_client.core.results import shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

BAR_WIDTH = 24
WHOLE = frozenset({"id", "name", "kind", "state", "kernel", "verdict"})  # columns that are not broken over lines
EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


def console() -> Console:
    """Standard output, as wide as the terminal; colours only there."""
    from rich.console import Console

    return Console(highlight=False)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def table_of(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], title: str | None = None) -> Table:
    """One row for each mapping; numbers to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    kept = list(rows)
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    for name in columns:
        numeric = any(isinstance(row.get(name), int | float) for row in kept)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold", no_wrap=name in WHOLE)
    for row in kept:
        table.add_row(*(escape(shown(row.get(name))) for name in columns))
    return table


def bars(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], value: str) -> Table:
    """A table whose last column draws `value` from zero to the largest."""
    kept = [{**row} for row in rows]
    largest = max((row[value] for row in kept if row.get(value)), default=0.0)
    for row in kept:
        row["▕"] = _bar(row[value] / largest) if row.get(value) else ""
    table = table_of(kept, [*columns, value, "▕"])
    table.columns[-1].no_wrap = True
    return table


def _bar(fraction: float) -> str:
    eighths: int = round(fraction * BAR_WIDTH * 8)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8]
