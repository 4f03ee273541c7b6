"""The section of docs/performance.md on one triangle of X·Xᵀ compared with all of it, from a recorded `python -m
benchmarks.measure.interleaved.symmetric`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.markdown import table

Row = Mapping[str, Any]


def symmetric(path: Path) -> Iterator[str]:
    """The parts of the section."""
    record = json.loads(path.read_bytes())
    rows: list[Row] = record["rows"]
    yield f"## Symmetric products, on an {record['device']}"
    yield (
        f"Recorded {record['environment']['recorded_at']} by `python -m benchmarks.measure.interleaved.symmetric`: "
        "X·Xᵀ of n×n "
        "matrices, by turns, cold cache. GFLOPS count n·(n+1)·k. Times in ms: one triangle and its mirror image; "
        "the whole product by the same kernel; cuBLAS's; and cuBLAS's `syrk`, which leaves the other triangle as it "
        "was and is for float32 and float64 alone."
    )
    head = ("kernel", "n", "GFLOPS", "triangle", "whole", "cuBLAS", "`syrk`", "over cuBLAS", "over `syrk`")
    yield table(head, map(_cells, rows)).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
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
