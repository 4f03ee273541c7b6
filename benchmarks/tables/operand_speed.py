"""The section of docs/performance.md on a recorded `python -m benchmarks.measure.operand_speed`: the speed of what
`auto` takes on operands of several kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.recorded import read
from tools.markdown import table

Row = Mapping[str, Any]


def operand_speed(path: Path) -> Iterator[str]:
    """The parts of the section."""
    record = read(path)
    rows: list[Row] = record["rows"]
    shapes = {(row["m"], row["n"], row["k"]) for row in rows}
    yield f"## float32 products on operands of several kinds, on an {record['device']}"
    yield (
        f"Recorded {record['environment']['recorded_at']} by `python -m benchmarks.measure.operand_speed` (seed "
        f"{record['seed']}): {len(shapes)} shapes, most of them random. Speed of what `auto` takes over cuBLAS, and "
        "over the faster of cuBLAS and `hopper_fp32`; cold cache. Where `auto` takes cuBLAS itself, its speed over its "
        "own differs from 1 by what two runs of one kernel differ by."
    )
    kinds = sorted({row["sigma"] for row in rows})
    by_kind = [[row for row in rows if row["sigma"] == sigma] for sigma in kinds]
    summary = [(_kind(sigma), *_summary(alike)) for sigma, alike in zip(kinds, by_kind, strict=True)]
    columns = ("worst over cuBLAS", "at", "median over cuBLAS", "worst over the faster", "at")
    yield table(("operands", *columns), summary).rstrip()
    yield "Of the shapes for which it takes `fp32_emulated`, in ms:"
    emulated = [row for row in rows if row["kernel"] == "fp32_emulated"]
    times = [(_shape(row), _kind(row["sigma"]), *(f"{ms:.4f}" for ms in row["ms"].values())) for row in emulated]
    yield table(("shape", "operands", "`fp32_emulated`", "cuBLAS", "`hopper_fp32`"), times).rstrip()


def _summary(rows: list[Row]) -> tuple[str, ...]:
    worst, of_faster = min(rows, key=_over_cublas), min(rows, key=_over_faster)
    return (
        f"{_over_cublas(worst):.3f}",
        f"{_shape(worst)}, `{worst['kernel']}`",
        f"{median(map(_over_cublas, rows)):.3f}",
        f"{_over_faster(of_faster):.3f}",
        f"{_shape(of_faster)}, `{of_faster['kernel']}`",
    )


def _over_cublas(row: Row) -> float:
    return float(row["ms"]["cublas"] / row["ms"]["auto"])


def _over_faster(row: Row) -> float:
    return float(min(row["ms"]["cublas"], row["ms"]["hopper_fp32"]) / row["ms"]["auto"])


def _kind(sigma: int) -> str:
    return f"log-normal, σ = {sigma}" if sigma else "normal"


def _shape(row: Row) -> str:
    return f"{row['m']}×{row['n']}×{row['k']}"
