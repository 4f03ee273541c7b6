"""What the programs of chaos tests have in common: records that go on, and what is kept of a run that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.recorded import read
from worker.cpu.environment import dated_environment

LOG_BYTES = 2000  # that are printed of each


def record_of(out: Path | None, packages: tuple[str, ...]) -> dict[str, Any]:
    """The record that is there, or a new one of this machine."""
    if out is not None and out.exists():
        record: dict[str, Any] = read(out)
        return record
    return {"environment": dated_environment(*packages), "runs": []}


def ends_of_logs(directory: Path) -> str:
    ends = {path.name: path.read_bytes()[-LOG_BYTES:].decode(errors="replace") for path in directory.glob("*.log")}
    return "\n".join(f"---- {name}\n{end}" for name, end in sorted(ends.items()))


def status(record: dict[str, Any]) -> int:
    """That a program exits with: 0 where all runs passed."""
    return 0 if record["runs"] and all(each["passed"] for each in record["runs"]) else 1
