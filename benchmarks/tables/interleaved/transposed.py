"""The section of docs/performance.md on B transposed beforehand, from a recorded `python -m
benchmarks.measure.interleaved.transposed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.tables.interleaved.section import Cells, Row, section

HEAD = (
    "type",
    "N",
    "kernel",
    "ours, TFLOPS",
    "cuBLAS",
    "cuBLAS, tuned",
    "ratio",
    "row-major B: ours",
    "cuBLAS",
    "ratio",
)
ABOUT = (
    "TFLOPS of square products, timed alternately, cold cache. 8-bit elements multiply fastest if both operands are "
    "contiguous along k. If B is not (row-major B), it is transposed within the time shown, by us and by the library; "
    "a caller who keeps B transposed saves that. Ratio: ours over the library's fastest, default or tuned."
)


def transposed(path: Path) -> Iterator[str]:
    """The parts of the section."""
    return section(path, "transposed", "B transposed beforehand", ABOUT, HEAD, _cells)


def _cells(row: Row) -> Cells:
    def tflops(ms: float | None) -> str:
        return "" if ms is None else f"{2 * row['n'] ** 3 / ms / 1e9:,.0f}"

    best = {layout: min(_of_library(row[layout])) for layout in ("transposed", "lying")}
    ours = {layout: row[layout][row["kernel"]] for layout in best}
    return (
        row["dtype"],
        f"{row['n']:,}",
        f"`{row['kernel']}`",
        *(tflops(row["transposed"].get(way)) for way in (row["kernel"], "cublas", "cublas_tuned")),
        f"{best['transposed'] / ours['transposed']:.2f}",
        *(tflops(ms) for ms in (ours["lying"], best["lying"])),
        f"{best['lying'] / ours['lying']:.2f}",
    )


def _of_library(times: Mapping[str, float]) -> list[float]:
    return [ms for way, ms in times.items() if way.startswith("cublas")]
