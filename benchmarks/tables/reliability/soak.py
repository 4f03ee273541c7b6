"""What docs/reliability.md says of the recorded `make soak`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.tables.where import where
from tools.markdown import table


def soak(results: Path) -> Iterator[str]:
    """A section; nothing where nothing is recorded."""
    if not (path := results / "soak.json").exists():
        return
    record = json.loads(path.read_text())
    asked, verdict = record["asked"], record["verdict"]
    yield where(record)
    yield (
        f"{record['jobs']:,} jobs in {record['seconds']:,.0f} s, by {asked['api_processes']} API processes and "
        f"{asked['workers']} CPU workers: {record['lost']} lost, {len(record['wrong'])} wrong. Below, the first "
        f"{asked['warm_up_s']:.0f} s are left out. Found to grow: {_list(verdict['growing'])}. Too short a run to say: "
        f"{_list(verdict['undecided'])}."
    )
    yield table(
        ("process", "memory grows, MiB/h", "interval", "descriptors, first and last quarter"),
        [
            (name, f"{each['per_h']:.2f}", f"{each['low']:.2f} to {each['high']:.2f}", _first_and_last(verdict, name))
            for name, each in verdict["memory"].items()
        ],
    ).rstrip()
    yield table(
        ("beside them", "median of the first quarter", "of the last"),
        [(name, f"{each['first']:,.0f}", f"{each['last']:,.0f}") for name, each in verdict["others"].items()],
    ).rstrip()


def _list(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _first_and_last(verdict: dict[str, dict[str, dict[str, float]]], name: str) -> str:
    each = verdict["descriptors"][name]
    return f"{each['first']:.0f}, {each['last']:.0f}"
