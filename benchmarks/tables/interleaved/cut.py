"""The section of docs/performance.md on products with few tiles and a deep k, from a recorded `python -m
benchmarks.measure.interleaved.cut`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure.interleaved.cut import CUT, LIBRARIES, WHOLE
from benchmarks.tables.interleaved.section import Cells, Row, section, shape_cells

TITLE = "Deep products with few tiles"
ABOUT = (
    "µs, timed alternately, cold cache. *Cut*: the kernel, which cuts tiles along k where that is forecast to gain. "
    "*Whole*: the kernel without cuts, in the config that it would then take. The last ratio is over the faster of "
    "cuBLAS's two times."
)
HEAD = ("kernel", "m × n", "k", "cut, µs", "whole, µs", "gain", "cuBLAS, µs", "cuBLAS, tuned, µs", "cut over cuBLAS")


def cut(path: Path) -> Iterator[str]:
    """The parts of the section."""
    return section(path, "cut", TITLE, ABOUT, HEAD, _cells)


def _cells(row: Row) -> Cells:
    ms = row["ms"]
    return (
        *shape_cells(row),
        *(f"{ms[way] * 1e3:,.1f}" for way in (CUT, WHOLE)),
        f"{ms[WHOLE] / ms[CUT]:.2f}",
        *(f"{ms[way] * 1e3:,.1f}" for way in LIBRARIES),
        f"{min(ms[way] for way in LIBRARIES) / ms[CUT]:.2f}",
    )
