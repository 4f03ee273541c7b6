"""The section of docs/performance.md on a recorded `python -m benchmarks.measure.interleaved.grouped`: groups of rows
in one launch, compared with cuBLAS's ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.tables.interleaved.section import Cells, Row, section

CALLS, ONE_CALL = "cublas", "cublasGemmGroupedBatchedEx"
ABOUT = (
    "rows of A in groups of random sizes, each multiplied by its own matrix, timed alternately, cold cache. TFLOPS "
    "count 2·m·n·k, with m the number of rows. Times in ms: one launch in the config that `auto` takes; the fastest of "
    f"the configs that were tried; cuBLAS, called for each group; and `{ONE_CALL}`. Ratio: the faster of cuBLAS's two "
    "times over the first."
)
HEAD = ("type", "groups", "rows", "n", "k", "B", "kernel", "TFLOPS", "ms", "fastest", "calls", "one call", "ratio")


def grouped(path: Path) -> Iterator[str]:
    """The parts of the section."""
    return section(path, "grouped", "Grouped products", ABOUT, HEAD, _cells)


def _cells(row: Row) -> Cells:
    times: Mapping[str, float] = row["ms"]
    ours = {name: ms for name, ms in times.items() if name not in (CALLS, ONE_CALL)}
    taken = next(iter(ours))
    return (
        row["dtype"],
        *(f"{row[name]:,}" for name in ("groups", "rows", "n", "k")),
        "along k" if row["transposed"] else "along n",
        f"`{taken.partition(' ')[0]}`",
        f"{row['gflops'] / 1e3:,.1f}",
        *(f"{ms:.3f}" for ms in (ours[taken], min(ours.values()), times[CALLS])),
        f"{times[ONE_CALL]:.3f}" if ONE_CALL in times else "",
        f"{row['of_library']:.2f}",
    )
