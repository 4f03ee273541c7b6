"""The section of docs/performance.md on cuBLAS at its best, from a recorded `python -m
benchmarks.measure.interleaved.library`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.markdown import table

COLUMNS = ("kernel", "type", "N", "default", "tuned", "zero-padded", "zero-padded and tuned")


def library(path: Path) -> Iterator[str]:
    """The parts of the section."""
    record = json.loads(path.read_bytes())
    yield f"## The library at its best, on an {record['device']}"
    yield (
        f"Recorded {record['environment']['recorded_at']} by `python -m benchmarks.measure.interleaved.library`: "
        "TFLOPS of square "
        "products by their useful operations, cold cache, normal data. Default: cuBLAS's own choice on the operands as "
        "they lie, rows at the service's pitch. Tuned: the fastest of that and of the ways that cublasLt's heuristic "
        "proposes, eight at most. Zero-padded: m, n and k at the next multiples of 64, copies not counted."
    )
    yield table(COLUMNS, [_row(row) for row in record["rows"]]).rstrip()


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    flops = 2 * row["n"] ** 3
    times = (
        row.get(where, {}).get(which) for where in ("as_it_lies", "padded") for which in ("default_ms", "tuned_ms")
    )
    return f"`{row['kernel']}`", row["dtype"], str(row["n"]), *(f"{flops / ms / 1e9:.1f}" if ms else "" for ms in times)
