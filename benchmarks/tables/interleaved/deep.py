"""The section of docs/performance.md on products with a long k, from a recorded `python -m
benchmarks.measure.interleaved.deep`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure.interleaved.deep import APART, IN_STEP
from tools.markdown import table

HEAD = ("kernel", "m × n", "k", "in step, TFLOPS", "without", "gain", "cuBLAS", "cuBLAS, tuned", "in step over cuBLAS")


def deep(path: Path) -> Iterator[str]:
    """The parts of the section."""
    record = json.loads(path.read_bytes())
    yield f"## Long products, on an {record['device']}"
    yield (
        f"Recorded {record['environment']['recorded_at']} by `python -m benchmarks.measure.interleaved.deep`: TFLOPS, "
        "by turns, cold cache. *In step*: clusters count the stages that they ask for and wait for each other, so that "
        "the L2 still has what they share. The last ratio is over the library's faster way; of the longest it is "
        "measured by default alone."
    )
    yield table(HEAD, map(_cells, record["rows"])).rstrip()


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    ms, flops = row["ms"], 2 * row["m"] * row["n"] * row["k"]

    def tflops(way: str | None) -> str:
        return "" if way is None else f"{flops / ms[way] / 1e9:,.0f}"

    by_default, *tuned = (way for way in ms if way not in (IN_STEP, APART))
    fastest = min(ms[way] for way in (by_default, *tuned))
    return (
        f"`{row['kernel']}`",
        f"{row['m']:,} × {row['n']:,}",
        f"{row['k']:,}",
        tflops(IN_STEP),
        tflops(APART),
        f"{ms[APART] / ms[IN_STEP]:.2f}",
        tflops(by_default),
        tflops(tuned[0] if tuned else None),
        f"{fastest / ms[IN_STEP]:.2f}",
    )
