"""The section of docs/performance.md on one triangle of X·Xᵀ compared with all of it, from a recorded `python -m
benchmarks.measure.interleaved.symmetric`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.tables.interleaved.section import Cells, Row, section

ABOUT = (
    "X·Xᵀ of n×n matrices, timed alternately, cold cache. GFLOPS count n·(n+1)·k. Times in ms: one triangle, "
    "mirrored; the whole product by the same kernel, and by cuBLAS at its default; and cuBLAS's `syrk`, which computes "
    "one triangle without mirroring it, in float32 and float64 only."
)
HEAD = ("kernel", "n", "GFLOPS", "triangle", "whole", "cuBLAS", "`syrk`", "over cuBLAS", "over `syrk`")


def symmetric(path: Path) -> Iterator[str]:
    """The parts of the section."""
    return section(path, "symmetric", "Symmetric products", ABOUT, HEAD, _cells)


def _cells(row: Row) -> Cells:
    times: Mapping[str, float] = row["ms"]
    triangle = next(iter(times.values()))
    library = next(times[name] for name in times if name.startswith("cublas"))
    syrk = times.get("syrk")
    return (
        f"`{row['kernel']}`",
        f"{row['n']:,}",
        f"{row['gflops']:,.0f}",
        *(f"{ms:.3f}" for ms in (triangle, times["whole"], library)),
        "" if syrk is None else f"{syrk:.3f}",
        f"{library / triangle:.2f}",
        "" if syrk is None else f"{syrk / triangle:.2f}",
    )
