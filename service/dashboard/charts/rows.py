"""Results as flat rows with the columns of the results' CSV, for own and published results alike."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

from analysis.curves import is_library, speed_ups
from analysis.library import baseline_fractions
from analysis.measurement import Measurement, size_of
from analysis.roofline import moved_bytes
from analysis.tables import COLUMNS, PARAMETERS, Value
from service.dashboard.charts.fields import words_of
from service.dashboard.charts.tables import PlotTable
from service.dashboard.words import UNKNOWN, figure

Row = Mapping[str, Value]
MAX_ROWS = 500
# Columns that a measurement has as a field of the same name.
SAME_IN_BOTH = (
    *("dtype", "accuracy", "m", "n", "k", "batch", "status", "kernel_ms", "gflops", "error_vs_float64"),
    *("worst_row_error", "h2d_ms", "d2h_ms", "registers", "local_bytes", "occupancy", "resident_blocks"),
    "sm_clock_mhz",
)


def known_columns(rows: Sequence[Row]) -> list[str]:
    """The columns that have a value in some row."""
    return [name for name in COLUMNS if any(row.get(name) is not None for row in rows)]


def published_rows(found: Sequence[Measurement]) -> list[Row]:
    """Rows of published measurements; the source's label is used as the kernel."""
    ratios = zip(found, speed_ups(found, "naive"), baseline_fractions(found), strict=True)
    return [dict.fromkeys(COLUMNS) | dict(_cells(one, up, share)) for one, up, share in ratios]


def _cells(one: Measurement, speed_up: float | None, share: float | None) -> Iterator[tuple[str, Value]]:
    for name in SAME_IN_BOTH:
        yield name, getattr(one, name)
    yield "kernel", one.label
    yield "size", size_of(one.m, one.n, one.k, one.batch)
    yield "condition", one.condition.kind
    yield "device_class", one.device.device_class
    yield "config", " ".join(f"{name}={value}" for name, value in one.config.items())
    for name in PARAMETERS:
        yield name, one.config.get(name)
    yield "flops", one.problem.flops
    if (speeds := one.gflops_interval) is not None:
        yield "gflops_lo", speeds.lo
        yield "gflops_hi", speeds.hi
    yield "speedup_vs_naive", speed_up
    if not is_library(one.kernel):  # the library itself is what the others are compared with
        yield "fraction_of_library", share
    compulsory, tiles = moved_bytes(one, "compulsory"), moved_bytes(one, "tile") if one.gflops else None
    yield "ai_min_flop_per_byte", one.problem.flops / compulsory if compulsory else None
    yield "ai_tile_flop_per_byte", one.problem.flops / tiles if tiles else None


def to_csv(rows: Sequence[Row]) -> bytes:
    """RFC 4180 with a heading, as the results' CSV."""
    held = io.StringIO(newline="")
    writer = csv.writer(held)
    writer.writerow(COLUMNS)
    writer.writerows(row.values() for row in rows)
    return held.getvalue().encode()


def fields_table(rows: Sequence[Row], x: str, y: str, colour: str) -> PlotTable:
    """A table of the three fields of every case that has them, sorted by colour and x."""
    head = list(dict.fromkeys((colour, "kernel", "dtype", x, y)))
    known = [row for row in rows if row[x] is not None and row[y] is not None]
    known.sort(key=lambda row: (_place(row[colour]), _place(row[x])))
    left = f"; the first {MAX_ROWS} of {len(known)}" if len(known) > MAX_ROWS else ""
    cells = [[_cell(row[name]) for name in head] for row in known[:MAX_ROWS]]
    caption = f"{words_of(y)} by {words_of(x)}, coloured by {words_of(colour)}{left}"
    return PlotTable(caption, [words_of(name) for name in head], cells)


def _place(value: Value) -> tuple[bool, float, str]:
    """A sort key: numbers by size, before words."""
    is_number = isinstance(value, int | float)
    return not is_number, float(value) if is_number else 0.0, str(value)  # type: ignore[arg-type]


def _cell(value: Value) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return figure(value) if isinstance(value, int | float) else value
