"""Records that add up runs: of several seeds, on several devices, at several commits."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.recorded import read
from kernels.text_files import write_text
from worker.cpu.environment import dated_environment

ROOT = Path(__file__).resolve().parents[2]
KEPT = ("cpu", "cores", "python", "recorded_at", "versions")


def origin(*packages: str, commit: str | None = None) -> dict[str, Any]:
    """Where and when a run is made: commit, processor, versions. `commit`, where given, is that of a checkout which
    has no history with it."""
    environment = dated_environment(*packages)
    return {"commit": commit or _commit(), **{name: environment[name] for name in KEPT}}


def _commit() -> str | None:
    """What is checked out, marked where files other than records differ from it; None where git does not know."""
    try:
        commit = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results", ":!docs")
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}, changed" if changed else commit


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()


class RunsRecord:
    """Rows of runs in a file that is written after each; in memory alone where there is no path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        exists = path is not None and path.exists()
        self.runs: list[dict[str, Any]] = read(path)["runs"] if path and exists else []

    def add(self, run: Mapping[str, Any]) -> None:
        """A run on a line of its own."""
        self.runs.append(dict(run))
        if self._path is not None:
            lines = ",\n".join(json.dumps(each) for each in self.runs)
            write_text(self._path, f'{{"runs": [\n{lines}\n]}}\n')

    def total(self, name: str) -> int:
        return sum(run[name] for run in self.runs)
