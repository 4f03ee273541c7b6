"""The section of docs/performance.md on a recorded `python -m benchmarks.measure.interleaved.epilogues`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.tables.interleaved.section import Cells, Row, section

ABOUT = (
    "n×n matrices, timed alternately, cold cache. Times in ms: A·B alone by the kernel; with C, a bias and an "
    "activation as listed, in a second pass and fused into the kernel; A·B alone by the fastest of cuBLAS's "
    "algorithms; and cublasLt with its own fused epilogue, where it has one. That epilogue does not store the sums by "
    "which its result could be checked."
)
HEAD = (
    "kernel",
    "n",
    "added",
    "alone",
    "second pass",
    "fused",
    "cuBLAS alone",
    "cublasLt's epilogue",
    "second pass over fused",
    "fused over alone",
)


def epilogues(path: Path) -> Iterator[str]:
    """The parts of the section."""
    return section(path, "epilogues", "C, a bias and an activation in the kernel itself", ABOUT, HEAD, _cells)


def _cells(row: Row) -> Cells:
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
