"""Deep products, for docs/performance.md: of a recorded `python -m benchmarks.measure.interleaved.deep`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.markdown import table

WAYS = ("in_step", "apart", "cublas", "cublas_tuned")
HEAD = ("kernel", "m × n", "k", "in step, TFLOPS", "without", "gain", "cuBLAS", "cuBLAS, tuned", "over the library")


def deep(path: Path) -> Iterator[str]:
    """A section."""
    record = json.loads(path.read_bytes())
    yield f"## Deep products, on an {record['device']}"
    yield (
        f"Recorded {record['environment']['recorded_at']} by `python -m benchmarks.measure.interleaved.deep`: TFLOPS, "
        "by turns, cold cache. *In step*: clusters count the stages that they ask for and wait for each other, so that "
        "the L2 still has what they share. *Over the library*: in step over the library's faster way."
    )
    yield table(HEAD, map(_cells, record["rows"])).rstrip()


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    ms, flops = row["ms"], 2 * row["m"] * row["n"] * row["k"]
    in_step, apart, by_default, tuned = (f"{flops / ms[way] / 1e9:,.0f}" for way in WAYS)
    gain, over = ms["apart"] / ms["in_step"], min(ms["cublas"], ms["cublas_tuned"]) / ms["in_step"]
    size = f"{row['m']:,} × {row['n']:,}"
    return (
        f"`{row['kernel']}`",
        size,
        f"{row['k']:,}",
        in_step,
        apart,
        f"{gain:.2f}",
        by_default,
        tuned,
        f"{over:.2f}",
    )
