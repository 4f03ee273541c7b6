"""The section of docs/performance.md on `python -m tests.soak.large_bodies`: memory during large bodies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.recorded import find, read
from benchmarks.tables.where import where
from tools.markdown import table


def large_bodies(results: Path) -> Iterator[str]:
    """The parts of the section; empty without a record."""
    if not (path := find(results, "large_bodies")):
        return
    record = read(path)
    yield "## Memory while large bodies pass"
    yield where(record)
    grown, wrong = ", ".join(record["growing"]) or "none", len(record["wrong"])
    yield (
        f"{record['gib']:,.0f} GiB in bodies of {record['body_mib']} MiB, one after another, in "
        f"{record['seconds']:,.0f} s: operands of products, uploads, downloads, all compared ({wrong} wrong). Memory "
        f"of its own that each process had, MiB; the first eighth is left out. Found to grow: {grown}."
    )
    rows = [(name, *(f"{mib:,.1f}" for mib in each)) for name, each in record["memory_mib"].items()]
    yield table(("process", "median of the first quarter", "of the last", "most"), rows).rstrip()
