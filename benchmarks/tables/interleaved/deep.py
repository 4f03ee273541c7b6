"""The section of docs/performance.md on products with a long k, from a recorded `python -m
benchmarks.measure.interleaved.deep`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure.interleaved.deep import APART, IN_STEP
from benchmarks.tables.interleaved.section import Cells, Row, section, shape_cells

HEAD = ("kernel", "m × n", "k", "in step, TFLOPS", "without", "gain", "cuBLAS", "cuBLAS, tuned", "in step over cuBLAS")
ABOUT = (
    "TFLOPS, timed alternately, cold cache. *In step*: clusters count the stages that they have requested and wait for "
    "each other, so that the L2 still has what they share. The last ratio is over the faster of cuBLAS's two; for the "
    "longest products, and for 8-bit floats, only its default was timed."
)


def deep(path: Path) -> Iterator[str]:
    """The parts of the section."""
    return section(path, "deep", "Long products", ABOUT, HEAD, _cells)


def _cells(row: Row) -> Cells:
    ms, flops = row["ms"], 2 * row["m"] * row["n"] * row["k"]

    def tflops(way: str | None) -> str:
        return "" if way is None else f"{flops / ms[way] / 1e9:,.0f}"

    by_default, *tuned = (way for way in ms if way not in (IN_STEP, APART))
    fastest = min(ms[way] for way in (by_default, *tuned))
    return (
        *shape_cells(row),
        tflops(IN_STEP),
        tflops(APART),
        f"{ms[APART] / ms[IN_STEP]:.2f}",
        tflops(by_default),
        tflops(tuned[0] if tuned else None),
        f"{fastest / ms[IN_STEP]:.2f}",
    )
