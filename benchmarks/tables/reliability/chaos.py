"""The sections of docs/reliability.md on recorded chaos runs: `make chaos-long`, and those of other layouts."""

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


def chaos(results: Path, name: str = "chaos") -> Iterator[str]:
    """The parts of the section on the record of that name; empty without it."""
    if not (path := find(results, name)):
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
    calls = _added("calls", runs)
    yield (
        f"Beside these faults {sum(calls[name] for name in PASSED_ON):,} of {calls['calls']:,} calls of Redis never "
        "arrived or were carried out without an answer. Before each run a control lost, swapped and doubled jobs, and "
        "was found out."
    )
    yield from _layout(runs)
    yield table(
        ("fault", "times", "jobs taken from their worker", "queued again, p50", "p99", "max"),
        [_kind(kind, runs) for kind in sorted({kind for run in runs for kind in run["faults_by_kind"]})],
    ).rstrip()
    if margins := _margins(runs):
        yield "How near runs came to the bounds at which they fail, nearest first, where they were recorded:"
        yield table(("bounded", "most", "bound"), margins).rstrip()
    if record["not_run"]:
        yield "Not run: " + "; ".join(f"{kind} ({reason})" for kind, reason in record["not_run"].items()) + "."


def _layout(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What took part beside what every run has."""
    if objects := _added("objects", runs):
        sent, received = (objects[f"{way}_bytes"] / 1e9 for way in ("sent", "received"))
        yield (
            f"Hosts sent the object store {objects['put']:,} PUT requests, {sent:.2f} GB, and {objects['got']:,} "
            f"GET requests, and received {received:.2f} GB."
        )
    if tiles := _added("tiles", runs):
        devices = sorted({device for run in runs for device in run.get("devices", ())})
        several = f", {tiles['on_several_gpus']:,} of them on several GPUs" if tiles["on_several_gpus"] else ""
        yield (
            f"{tiles['products']:,} products went in {tiles['tiles']:,} tiles{several} ({', '.join(devices)}). "
            f"{tiles['faults_in_the_middle']:,} faults met a worker in the middle of one; {tiles['run_again']:,} were "
            f"run again, and found {tiles['tiles_kept']:,} tiles done."
        )


def _added(name: str, runs: Sequence[Mapping[str, Any]]) -> Counter[str]:
    return sum((Counter(run.get(name, {})) for run in runs), Counter[str]())


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
