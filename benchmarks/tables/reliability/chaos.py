"""The section of docs/reliability.md on the recorded `make chaos-long`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.recorded import find, read
from benchmarks.tables.where import where
from tools.markdown import table

COUNTS = ("accepted", "faults", "lost", "wrong", "doubled", "stuck", "failed")
PASSED_ON = ("before", "executed")  # of calls


def chaos(results: Path) -> Iterator[str]:
    """The parts of the section; empty without a record."""
    if not (path := find(results, "chaos")):
        return
    record = read(path)
    runs = record["runs"]
    yield where(record)
    yield table(
        ("seed", "accepted jobs", "faults", "lost", "wrong", "doubled", "stuck", "failed for good", "left behind"),
        [*(_row(str(run["seed"]), [run]) for run in runs), _row("all", runs)],
    ).rstrip()
    if elsewhere := [f"{run['seed']} on {run['place']}" for run in runs if "place" in run]:
        yield f"Made elsewhere: seed {', seed '.join(elsewhere)}."
    calls = sum((Counter(run["calls"]) for run in runs), Counter[str]())
    yield (
        f"Beside these faults {sum(calls[name] for name in PASSED_ON):,} of {calls['calls']:,} calls of Redis never "
        "arrived or were carried out without an answer. Before each run a control lost, swapped and doubled jobs, and "
        "was found out."
    )
    yield table(
        ("fault", "times", "jobs taken from their worker", "queued again, p50", "p99", "max"),
        [_kind(kind, runs) for kind in sorted({kind for run in runs for kind in run["faults_by_kind"]})],
    ).rstrip()
    if margins := _margins(runs):
        yield "How near runs came to the bounds at which they fail, nearest first, where they were recorded:"
        yield table(("bounded", "most", "bound"), margins).rstrip()
    if record["not_run"]:
        yield "Not run: " + "; ".join(f"{kind} ({reason})" for kind, reason in record["not_run"].items()) + "."


def _margins(runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """A bound that changed between runs has a row for each value."""
    largest: dict[tuple[str, float], float] = {}
    for run in runs:
        for what, (seen, bound) in run.get("margins", {}).items():
            largest[what, bound] = max(seen, largest.get((what, bound), 0.0))
    nearest = sorted(largest.items(), key=lambda each: each[1] / each[0][1], reverse=True)
    return [(what, f"{seen:g}", f"{bound:g}") for (what, bound), seen in nearest]


def _row(name: str, runs: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    left = sum(sum(run["left_behind"].values()) for run in runs)
    return (name, *(f"{sum(run[count] for run in runs):,}" for count in COUNTS), f"{left}")


def _kind(kind: str, runs: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The longest times of all runs."""
    times = sum(run["faults_by_kind"].get(kind, 0) for run in runs)
    found = [run["back_in_the_queue"][kind] for run in runs if kind in run["back_in_the_queue"]]
    if not found:
        return (kind, f"{times}", "", "", "", "")
    worst = (f"{max(each[name] for each in found):.2f} s" for name in ("p50_s", "p99_s", "max_s"))
    return (kind, f"{times}", f"{sum(each['jobs'] for each in found)}", *worst)
