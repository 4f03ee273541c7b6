"""The section of docs/performance.md on products with few tiles and a deep k, from a recorded `python -m
benchmarks.measure.interleaved.cut`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure.interleaved.cut import CUT, LIBRARIES, WHOLE
from tools.markdown import table

HEAD = ("kernel", "m × n", "k", "cut, µs", "whole, µs", "gain", "cuBLAS, µs", "cuBLAS, tuned, µs", "cut over cuBLAS")


def cut(path: Path) -> Iterator[str]:
    """The parts of the section."""
    record = json.loads(path.read_bytes())
    yield f"## Deep products with few tiles, on an {record['device']}"
    yield (
        f"Recorded {record['environment']['recorded_at']} by `python -m benchmarks.measure.interleaved.cut`: µs, by "
        "turns, cold cache. *Cut*: the kernel as it is, which cuts tiles along k where that is forecast to gain. "
        "*Whole*: the same without that, in the config that it would then take. The last ratio is over the library's "
        "faster way."
    )
    yield table(HEAD, map(_cells, record["rows"])).rstrip()


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    ms = row["ms"]
    return (
        f"`{row['kernel']}`",
        f"{row['m']:,} × {row['n']:,}",
        f"{row['k']:,}",
        *(f"{ms[way] * 1e3:,.1f}" for way in (CUT, WHOLE)),
        f"{ms[WHOLE] / ms[CUT]:.2f}",
        *(f"{ms[way] * 1e3:,.1f}" for way in LIBRARIES),
        f"{min(ms[way] for way in LIBRARIES) / ms[CUT]:.2f}",
    )
