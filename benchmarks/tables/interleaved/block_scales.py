"""The section of docs/performance.md on a recorded `python -m benchmarks.measure.interleaved.block_scales`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.tables.interleaved.section import Cells, Row, section
from kernels.model.scales import SCALE_DEPTH

OURS, LIBRARY, NARROW, PLAIN = "hopper_fp8", "cublas_fp8_blocks", "bfloat16", "without scales"
ABOUT = (
    "TFLOPS, timed alternately, cold cache. A has a scale for each row and 128 steps of k; B for each column, or for "
    f"128 of them. `{OURS}` and the fastest of cublasLt's own algorithms (`{LIBRARY}`) store float32, or bfloat16 from "
    "the kernel itself."
)
HEAD = (
    "m×n×k",
    "scales of B",
    f"`{OURS}`",
    "as bfloat16",
    "without scales",
    "cublasLt",
    "as bfloat16",
    "ratio",
    "as bfloat16",
)


def block_scales(path: Path) -> Iterator[str]:
    """The parts of the section."""
    return section(path, "block_scales", "8-bit floats with block scales", ABOUT, HEAD, _cells)


def _cells(row: Row) -> Cells:
    times: Mapping[str, float] = row["ms"]
    flops = 2.0 * row["m"] * row["n"] * row["k"]
    ways = (OURS, f"{OURS} {NARROW}", PLAIN, LIBRARY, f"{LIBRARY} {NARROW}")
    ratios = (times[LIBRARY] / times[OURS], times[f"{LIBRARY} {NARROW}"] / times[f"{OURS} {NARROW}"])
    return (
        f"{row['m']:,}×{row['n']:,}×{row['k']:,}",
        f"1×{SCALE_DEPTH}" if row["scale_columns"] == 1 else f"{SCALE_DEPTH}×{SCALE_DEPTH}",
        *(f"{flops / times[way] / 1e9:,.0f}" for way in ways),
        *(f"{ratio:.2f}" for ratio in ratios),
    )
