"""Heat maps of tile configs by size, with each config's use of a multiprocessor."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from analysis.measurement import Measurement
from analysis.plots.description import Cell, Grid
from service.dashboard.charts.svg import LETTER, Drawing, format_number
from service.dashboard.words import UNKNOWN, percent

MAX_ROWS = 60
ROW, TOP, CELL, FOOT = 22, 24, 62, 6
BESIDE = (("registers", 100), ("occupancy", 84))
DARK_FROM = 0.55  # share from which a cell's text is on a dark background


def heading(grid: Grid) -> str:
    return f"{grid.title}, by {grid.parameters or 'size'}"


def beside(measurement: Measurement) -> tuple[str, str]:
    """Registers, spilled bytes and occupancy as text."""
    occupancy = percent(measurement.occupancy)
    if measurement.registers is None:
        return UNKNOWN, occupancy
    return f"{measurement.registers}{' + spills' if measurement.local_bytes else ''}", occupancy


def draw(grid: Grid) -> Markup:
    left = 12 + LETTER * max(map(len, grid.configs))
    column = max(CELL, LETTER * max(map(len, grid.sizes)))
    right = left + column * len(grid.sizes)
    width = right + sum(room for _, room in BESIDE) + 8
    picture = Drawing(width, TOP + ROW * len(grid.configs) + FOOT, f"GFLOPS of {grid.label} by config and size.")
    for place, size in enumerate(grid.sizes):
        picture.text(left + column * (place + 0.5), TOP - 8, size, anchor="middle", kind="faint")
    _columns(picture, right, TOP - 8, [name for name, _ in BESIDE], "faint")
    for row, (config, cells, measurement) in enumerate(zip(grid.configs, grid.cells, grid.measured, strict=True)):
        top = TOP + ROW * row
        picture.text(left - 8, top + 15, config, anchor="end")
        for place, (size, cell) in enumerate(zip(grid.sizes, cells, strict=True)):
            if cell is not None:
                _cell(picture, f"{config} at {size}", cell, left + column * place, top, column)
        _columns(picture, right, top + 15, beside(measurement), "")
    return picture.svg()


def _columns(picture: Drawing, x: float, y: float, words: Sequence[str], kind: str) -> None:
    for text, (_, room) in zip(words, BESIDE, strict=True):
        x += room
        picture.text(x, y, text, anchor="end", kind=kind)


def _cell(picture: Drawing, name: str, cell: Cell, x: float, y: float, width: float) -> None:
    gflops = format_number(cell.gflops)
    picture.begin(f"{name}: {gflops} GFLOPS, {percent(cell.share)} of the fastest config there")
    picture.rectangle("warm", x + 1, y + 1, width - 2, ROW - 2, opacity=max(0.06, cell.share**2))
    if cell.share == 1:
        picture.rectangle("frame", x + 1, y + 1, width - 2, ROW - 2)
    kind = "on-warm" if cell.share**2 > DARK_FROM else ""
    picture.text(x + width / 2, y + 15, gflops, anchor="middle", kind=kind)
    picture.end()
