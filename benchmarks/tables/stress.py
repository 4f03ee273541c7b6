"""The section of docs/performance.md on a recorded `make stress`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.recorded import read
from tools.markdown import table

# Heads of the table's columns, and what is counted in each (tests/stress/tally.py says what it means).
HEADS = {
    "exact": "exact",
    "batched": "batched",
    "transposed": "transposed",
    "conjugated": "conjugated",
    "symmetric": "A·Aᵀ",
    "triangle": "one triangle",
    "grouped": "grouped",
    "scaled": "scaled",
    "stacked": "stacked",
    "widened": "widened",
    "tolerance": "tolerance",
    "reproducible": "reproducible",
    "epilogue": "epilogue",
    "fused": "fused",
}
ADDED = ("c", "bias", "relu", "gelu", "gelu_tanh", "silu", "output")


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
    yield from _by_option(record)
    if record["failures"]:
        yield "\n".join(f"- {said}" for _, said in record["failures"])


def _by_option(record: dict[str, Any]) -> Iterator[str]:
    rows = [dict(zip(record["columns"], row, strict=True)) for row in record["rows"]]
    total: Counter[str] = Counter()
    for row in rows:
        total.update({name: count for name, count in row.items() if isinstance(count, int)})
    ended = ", ".join(f"{total[name]:,} {'another type' if name == 'output' else name}" for name in ADDED)
    yield (
        "Each kernel has its share of them in each of its element types and with each option that it takes. One "
        "triangle: of A·Aᵀ, with the other mirrored, at any size. Stacked: of several jobs, in one launch. Widened: of "
        "16-bit operands, in float32. Tolerance: held to the bound that is proven for them too. Reproducible: computed "
        f"twice, with the same bits. Fused: with an epilogue of the kernel's own. In epilogues: {ended}."
    )
    if record["refused"]:
        yield f"{len(record['refused'])} more were refused by a library that has no such product, with a sentence."
    columns = ("kernel", "type", "products", "wrong", *HEADS.values())
    yield table(columns, [_cells(row) for row in rows]).rstrip()


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    counts = (row[name] for name in HEADS)
    wrong = str(row["wrong"]) if row["wrong"] else ""
    return f"`{row['kernel']}`", row["dtype"], f"{row['products']}", wrong, *(f"{count or ''}" for count in counts)


def _others(record: dict[str, Any]) -> str:
    """Further figures on rounded products."""
    kinds = sum(count > 0 for count in record["by_data"].values()) - 1
    return f", and each element is held to the bound of its class; their operands are of {kinds} kinds"
