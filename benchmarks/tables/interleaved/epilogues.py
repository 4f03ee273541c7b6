"""What docs/performance.md says of a recorded `python -m benchmarks.measure.interleaved.epilogues`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.markdown import table

Row = Mapping[str, Any]


def epilogues(path: Path) -> Iterator[str]:
    """A section."""
    record = json.loads(path.read_bytes())
    rows: list[Row] = record["rows"]
    yield f"## C and a bias in the kernel itself, on an {record['device']}"
    yield (
        f"Recorded {record['environment']['recorded_at']} by `python -m benchmarks.measure.interleaved.epilogues`: n×n "
        "matrices, by turns, cold cache. Times in ms: A·B alone by the kernel; alpha·A·B + beta·C + bias by the kernel "
        "and a pass after it, and by the kernel itself; and cuBLAS's A·B alone, the fastest of what it proposes."
    )
    head = (
        "kernel",
        "n",
        "added",
        "alone",
        "and a pass",
        "fused",
        "cuBLAS alone",
        "pass over fused",
        "fused over alone",
    )
    yield table(head, map(_cells, rows)).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    times: Mapping[str, float] = row["ms"]
    library = next(times[name] for name in times if name.startswith("cublas"))
    added = " and ".join(name for name, has in (("C", row["c"]), ("a bias", row["bias"])) if has)
    return (
        f"`{row['kernel']}`",
        f"{row['n']:,}",
        added,
        *(f"{ms:.3f}" for ms in (times["alone"], times["pass"], times["fused"], library)),
        f"{times['pass'] / times['fused']:.2f}",
        f"{times['fused'] / times['alone']:.2f}",
    )
