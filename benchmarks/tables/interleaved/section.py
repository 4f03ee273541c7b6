"""What the sections on ways that were timed alternately have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.recorded import read
from tools.markdown import table

Row = Mapping[str, Any]
Cells = tuple[str, ...]


def section(
    path: Path, script: str, title: str, about: str, head: Cells, cells: Callable[[Row], Cells]
) -> Iterator[str]:
    """The parts of the section on a record of `benchmarks.measure.interleaved.<script>`: heading, text, table."""
    record = read(path)
    recorded_at = record["environment"]["recorded_at"]
    yield f"## {title}, on an {record['device']}"
    yield f"Recorded {recorded_at} by `python -m benchmarks.measure.interleaved.{script}`: {about}"
    yield table(head, map(cells, record["rows"])).rstrip()


def shape_cells(row: Row) -> Cells:
    """The kernel, m × n and k of a row."""
    return f"`{row['kernel']}`", f"{row['m']:,} × {row['n']:,}", f"{row['k']:,}"
