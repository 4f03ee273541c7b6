"""Records that combine several runs: of several seeds, on several devices, at several commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.recorded import find
from benchmarks.recorded import read as read_record

Run = Mapping[str, Any]


def read(path: Path) -> list[Run]:
    """The runs of a record."""
    runs: list[Run] = read_record(path)["runs"]
    return runs


def runs_of(results: Path, name: str) -> list[Run]:
    """The runs of the record of that name; none if nothing is recorded."""
    path = find(results, name)
    return read(path) if path else []


def total(runs: Sequence[Run], name: str) -> int:
    return sum(run[name] for run in runs)


def device(run: Run) -> str:
    return f"{run['cpu']}, {run['cores']} cores, Python {run['python']}"


def made(runs: Sequence[Run]) -> str:
    """The machines and commits of the runs."""
    devices, commits = (", ".join(dict.fromkeys(map(of, runs))) for of in (device, lambda run: str(run["commit"])))
    return f"Recorded on {devices}, at {commits}."
