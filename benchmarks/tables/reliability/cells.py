"""The section of docs/reliability.md on the recorded `make chaos-cells`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.recorded import find, read
from benchmarks.tables.reliability.runs import Run, total
from benchmarks.tables.where import where
from tools.markdown import table

COUNTS = ("accepted", "faults", "lost", "wrong", "doubled", "stuck", "failed", "answers", "defects")
HEADER = ("seed", "accepted jobs", *COUNTS[1:])
# What became of requests to what was struck, as columns.
OUTCOMES = {
    "cell_unavailable": ("cell_unavailable",),
    "503 of its API": ("503 of its API",),
    "gave up": ("timed out",),
    "connection ended": ("closed", "cut short"),
    "answered": ("answered",),
}
OTHERS = ("answers of the others", "errors", "p50, ms", "p99", "slowest", "slowest while it starts")
SPEEDS = ("p50_ms", "p99_ms", "max_ms")
CALM = "none"


def chaos_cells(results: Path) -> Iterator[str]:
    """The parts of the section; empty without a record."""
    if not (path := find(results, "chaos_cells")):
        return
    record = read(path)
    runs = record["runs"]
    yield where(record)
    yield table(HEADER, [*(_row(str(run["seed"]), [run]) for run in runs), _row("all", runs)]).rstrip()
    kinds = dict.fromkeys(kind for run in runs for kind in run["by_kind"])
    yield table(("fault", "times", *OUTCOMES, *OTHERS), [_kind(kind, runs) for kind in kinds]).rstrip()


def _row(name: str, runs: Sequence[Run]) -> tuple[str, ...]:
    return (name, *(f"{total(runs, count):,}" for count in COUNTS))


def _kind(kind: str, runs: Sequence[Run]) -> tuple[str, ...]:
    """Counts of all runs, and the longest times of any."""
    found: list[Mapping[str, Any]] = [run["by_kind"][kind] for run in runs if kind in run["by_kind"]]
    if kind == CALM:
        return (kind, "", *("" for _ in OUTCOMES), *_speed(found), "")
    own = sum((Counter(each["own"]) for each in found), Counter[str]())
    outcomes = (f"{sum(own[word] for word in words):,}" for words in OUTCOMES.values())
    back = [each["back"]["max_ms"] for each in found if "back" in each]
    others = _speed([each["down"] for each in found if "down" in each])
    return (kind, f"{total(found, 'times')}", *outcomes, *others, f"{max(back):.0f}" if back else "")


def _speed(found: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    if not found:
        return ("",) * (2 + len(SPEEDS))
    counts = (f"{total(found, name):,}" for name in ("answers", "errors"))
    return (*counts, *(f"{max(each[name] for each in found):.0f}" for name in SPEEDS))
