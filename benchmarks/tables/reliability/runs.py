"""Records that combine several runs: of several seeds, on several devices, at several commits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Run = Mapping[str, Any]


def read(path: Path) -> list[Run]:
    """None if nothing is recorded."""
    runs: list[Run] = json.loads(path.read_text())["runs"] if path.exists() else []
    return runs


def total(runs: Sequence[Run], name: str) -> int:
    return sum(run[name] for run in runs)


def device(run: Run) -> str:
    return f"{run['cpu']}, {run['cores']} cores, Python {run['python']}"


def made(runs: Sequence[Run]) -> str:
    """The machines and commits of the runs."""
    devices, commits = (", ".join(dict.fromkeys(map(of, runs))) for of in (device, lambda run: str(run["commit"])))
    return f"Recorded on {devices}, at {commits}."
