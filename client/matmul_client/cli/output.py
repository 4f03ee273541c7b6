"""How answers look: tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from matmul_client.core.results import shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

BAR_WIDTH = 24
LONG = frozenset({"summary", "idea", "values", "config"})  # columns that may be broken over lines
PIPED_WIDTH = 200  # where no terminal says how wide it is
EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


def console() -> Console:
    """Standard output, as wide as the terminal; colours only there."""
    from rich.console import Console

    found = Console(highlight=False)
    if not found.is_terminal and "COLUMNS" not in os.environ:
        found.width = PIPED_WIDTH
    return found


class OutputFile(click.Path):
    """A file to write. Its folder is looked at before any work is done for it."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-":
            self.fail("- is not a file; /dev/stdout is standard output.", param, ctx)
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        try:
            if _is_special(path):  # nothing is made in its folder
                return path
        except OSError as error:
            self.fail(f"{path} cannot be written to: {error.strerror}.", param, ctx)
        if not path.name:
            self.fail("it is empty; name a file.", param, ctx)
        folder = path.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            why = "cannot be written to" if folder.is_dir() else "does not exist"
            self.fail(f"the folder of {path} {why}.", param, ctx)
        return path


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes a file by `write`. One that is already there stays as it was until the new one is whole. What is no file,
    such as a pipe, is written to as it is. Raises OSError."""
    if _is_special(path):  # asked before links are followed: the pipe behind /dev/stdout has no name
        whole = BytesIO()  # numpy asks a file where it is in it, which a pipe does not know
        write(whole)
        with path.open("wb") as special:
            special.write(whole.getbuffer())
        return
    path = path.resolve()
    begun = path.with_name(f".matmul-{secrets.token_hex(8)}")  # short: the name itself may be as long as names can be
    try:
        with begun.open("xb") as file:
            write(file)
        if path.exists():
            begun.chmod(path.stat().st_mode & 0o777)
        begun.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        begun.unlink(missing_ok=True)


def _is_special(path: Path) -> bool:
    """A pipe or a device."""
    return path.exists() and not path.is_file() and not path.is_dir()


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def show(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Prints a table. Columns that the terminal has no room for are left out, the last ones first."""
    kept, screen = list(rows), console()
    wanted = list(columns)
    while len(wanted) > 1 and _narrowest(table_of(kept, wanted), screen) > screen.width:
        wanted.pop()
    screen.print(table_of(kept, wanted))
    if left_out := columns[len(wanted) :]:
        click.echo(f"No room for {', '.join(left_out)}: widen the terminal, or use --json.", err=True)


def _narrowest(table: Table, screen: Console) -> int:
    return table.__rich_measure__(screen, screen.options.update(width=10_000)).minimum


def table_of(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], title: str | None = None) -> Table:
    """A table with a row for each mapping; numbers are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    kept = list(rows)
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", padding=(0, 1), pad_edge=False)
    for name in columns:
        numeric = any(isinstance(row.get(name), int | float) for row in kept)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold", no_wrap=name not in LONG)
    for row in kept:
        table.add_row(*(escape(shown(row.get(name))) for name in columns))
    return table


def bars(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], value: str) -> Table:
    """A table whose last column draws `value` from zero to the largest."""
    kept = [{**row} for row in rows]
    largest = max((row[value] for row in kept if row.get(value)), default=0.0)
    for row in kept:
        row["▕"] = _bar(row[value] / largest) if row.get(value) else ""
    return table_of(kept, [*columns, value, "▕"])


def size_of(case: Mapping[str, Any]) -> str:
    """m×n×k, or their one value; of a batch, how many."""
    sizes, batch = [case[name] for name in "mnk"], case.get("batch", 1)
    extents = str(sizes[0]) if len({*sizes}) == 1 else "×".join(map(str, sizes))
    return extents if batch == 1 else f"{batch} of {extents}"


def _bar(fraction: float) -> str:
    eighths: int = round(fraction * BAR_WIDTH * 8)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8]
