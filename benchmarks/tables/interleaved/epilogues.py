"""The section of docs/performance.md on a recorded `python -m benchmarks.measure.interleaved.epilogues`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.tables.interleaved.section import Cells, Row, section

ABOUT = (
    "n×n matrices, by turns, cold cache. Times in ms: A·B alone by the kernel; alpha·A·B + beta·C + bias, and an "
    "activation of it, by the kernel and a pass after it, and by the kernel itself; cuBLAS's A·B alone, the fastest "
    "of what it proposes; and cublasLt's with the same as an epilogue of its own, where it has that. It stores "
    "nothing beside, by which the result could be checked."
)
HEAD = (
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
