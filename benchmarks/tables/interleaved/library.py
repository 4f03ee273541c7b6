"""The section of docs/performance.md on cuBLAS at its best, from a recorded `python -m
benchmarks.measure.interleaved.library`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.tables.interleaved.section import Cells, Row, section

HEAD = ("kernel", "type", "N", "default", "tuned", "zero-padded", "zero-padded and tuned")
ABOUT = (
    "TFLOPS of square products, without operations on padding; cold cache, normal data. Default: cuBLAS's own choice "
    "on unpadded sizes, rows at the service's pitch. Tuned: the fastest of that and of up to eight algorithms that "
    "cublasLt's heuristic proposes. Zero-padded: m, n and k rounded up to multiples of 64, copies not counted."
)


def library(path: Path) -> Iterator[str]:
    """The parts of the section."""
    return section(path, "library", "The library at its best", ABOUT, HEAD, _cells)


def _cells(row: Row) -> Cells:
    flops = 2 * row["n"] ** 3
    times = (
        row.get(where, {}).get(which) for where in ("as_it_lies", "padded") for which in ("default_ms", "tuned_ms")
    )
    return f"`{row['kernel']}`", row["dtype"], str(row["n"]), *(f"{flops / ms / 1e9:.1f}" if ms else "" for ms in times)
