"""The section of docs/performance.md on a recorded `python -m benchmarks.measure.interleaved.epilogues`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.markdown import table

Row = Mapping[str, Any]


def epilogues(path: Path) -> Iterator[str]:
    """The parts of the section."""
    record = json.loads(path.read_bytes())
    rows: list[Row] = record["rows"]
    yield f"## C, a bias and an activation in the kernel itself, on an {record['device']}"
    yield (
        f"Recorded {record['environment']['recorded_at']} by `python -m benchmarks.measure.interleaved.epilogues`: n×n "
        "matrices, by turns, cold cache. Times in ms: A·B alone by the kernel; alpha·A·B + beta·C + bias, and an "
        "activation of it, by the kernel and a pass after it, and by the kernel itself; cuBLAS's A·B alone, the "
        "fastest of what it proposes; and cublasLt's with the same as an epilogue of its own, where it has that. It "
        "stores nothing beside, by which the result could be checked."
    )
    head = (
        "kernel",
        "n",
        "added",
        "alone",
        "and a pass",
        "fused",
        "cuBLAS alone",
        "cublasLt's epilogue",
        "pass over fused",
        "fused over alone",
    )
    yield table(head, map(_cells, rows)).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    times: Mapping[str, float] = row["ms"]
    library = next(times[name] for name in times if name.startswith("cublas"))
    named = (("C", row["c"]), ("a bias", row["bias"]), (f"`{row['activation']}`", row["activation"]))
    added = ", ".join(name for name, has in named if has)
    by_library = times.get("library_epilogue")
    return (
        f"`{row['kernel']}`",
        f"{row['n']:,}",
        added,
        *(f"{ms:.3f}" for ms in (times["alone"], times["pass"], times["fused"], library)),
        "" if by_library is None else f"{by_library:.3f}",
        f"{times['pass'] / times['fused']:.2f}",
        f"{times['fused'] / times['alone']:.2f}",
    )
