"""The section of docs/performance.md on a recorded `python -m benchmarks.measure.check`: the cost of a
product's check.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.recorded import read
from tools.markdown import table


def check_cost(path: Path) -> Iterator[str]:
    """The parts of the section."""
    record = read(path)
    at = record["environment"]
    yield f"## The check of a product, on an {record['device']}"
    yield (
        f"Recorded {at['recorded_at']} by `python -m benchmarks.measure.check`, {at['cores']} cores. Medians: the "
        "product by the device's library, and the whole check of it, from its call to its verdict; on a GPU with the "
        "digests of all three matrices. Share: of both together."
    )
    rows = [
        (
            row["dtype"],
            str(row["n"]),
            f"{row['product_ms']:.3f}",
            f"{row['check_ms']:.3f}",
            f"{row['check_ms'] / (row['product_ms'] + row['check_ms']):.1%}",
        )
        for row in record["rows"]
    ]
    yield table(("type", "N", "product, ms", "check, ms", "share"), rows).rstrip()
