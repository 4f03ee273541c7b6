"""The section of docs/performance.md on a recorded `make stress`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.recorded import read
from tools.markdown import table


def stress(path: Path) -> Iterator[str]:
    """The parts of the section."""
    record = read(path)
    wrong = len(record["failures"])
    yield f"## Random products, each checked, on an {record['device']['name']}"
    yield (
        f"Recorded by `make stress` (seed {record['seed']}): {record['products']:,} products with "
        f"{record['elements']:,} elements; {wrong or 'none'} of the products wrong. Sizes log-uniform from 1 to 1500, "
        "some to 4096, ragged and whole; tile configs at random; memory poisoned beforehand. Exact: of small integers, "
        "where every element is compared to the last bit. The others are checked as every product of the service is"
        f"{_others(record)}."
    )
    columns = ("kernel", "products", "exact", "batched", "transposed")
    rows = [
        (f"`{kernel}`", *(f"{count[name]}" for name in columns[1:])) for kernel, count in record["by_kernel"].items()
    ]
    yield table(columns, rows).rstrip()
    if record["failures"]:
        yield "\n".join(f"- {failure}" for failure in record["failures"])


def _others(record: dict[str, Any]) -> str:
    """Further figures on rounded products; earlier records had normal numbers alone."""
    if "by_data" not in record:
        return "; they are of normal numbers"
    kinds = sum(count > 0 for count in record["by_data"].values()) - 1
    return f", and each element is held to the bound of its class; their operands are of {kinds} kinds"
