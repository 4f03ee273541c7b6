"""The table at the beginning of docs/reliability.md: each promise in numbers, the command that checks it, the required
result, and the recorded one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.recorded import files
from benchmarks.recorded import read as read_record
from benchmarks.tables.reliability.runs import read, total
from tools.markdown import table

EXAMPLES = 1000  # for each operation
CHAINS = "chains"  # of requests, counted separately from operations
CROSSED = ("this API, other worker", "other API, this worker")


class Promise(NamedTuple):
    """`found` says what a record shows; it gets the record's path."""

    of: str
    command: str
    must: str
    record: str
    found: Callable[[Path], str]


def promises(results: Path) -> Iterator[str]:
    """A section with a row for each promise whose record exists."""
    rows = [
        (each.of, f"`{each.command}`", each.must, each.found(paths[-1]))
        for each in PROMISES
        if (paths := files(results, each.record))
    ]
    if rows:
        yield table(("promise", "command", "it must show", "it showed"), rows).rstrip()


def _chaos(path: Path) -> str:
    runs = read(path)
    bad = [total(runs, name) for name in ("lost", "wrong", "doubled", "stuck", "failed")]
    return f"{_listed(bad)} of {total(runs, 'accepted'):,} under {total(runs, 'faults'):,}, {len(runs)} seeds"


def _cells(path: Path) -> str:
    runs = read(path)
    bad = [sum(total(runs, name) for name in ("lost", "wrong", "doubled", "stuck", "failed")), total(runs, "defects")]
    counts = " and ".join(f"{total(runs, name):,}" for name in ("accepted", "answers"))
    return f"{_listed(bad)} of {counts} under {total(runs, 'faults')}, {len(runs)} seeds"


def _recovered(killed: str, what: str) -> Callable[[Path], str]:
    def found(path: Path) -> str:
        rows = [row for row in read_record(path)["recovery"] if row["killed"] == killed]
        return f"{max(row[what] for row in rows):.2f} s of {total(rows, 'kills'):,} kills"

    return found


def _mixed(path: Path) -> str:
    runs = read(path)
    ways = sum((Counter(run["ways"]) for run in runs), Counter[str]())
    bad = sum(sum(run["bad"].values()) for run in runs)
    return f"{bad} of {' and '.join(f'{ways[way]:,}' for way in CROSSED)}"


def _soak(path: Path) -> str:
    """From the last run on each Python."""
    runs = read(path)
    last = {run["python"]: run for run in runs}
    grown = [
        f"{max(each['per_h'] for each in run['verdict']['memory'].values()):.2f} MiB/h in "
        f"{run['seconds'] / 60:,.0f} minutes on Python {python}"
        for python, run in sorted(last.items())
    ]
    jobs, lost = (total(runs, name) for name in ("jobs", "lost"))
    return f"{', '.join(grown)}; {lost} of {jobs:,} lost"


def _malformed(path: Path) -> str:
    runs = read(path)
    bad = sum(sum(run["bad"].values()) for run in runs)
    counts = [bad, total(runs, "restarts"), total(runs, "tracebacks")]
    return f"{_listed(counts)} of {total(runs, 'requests'):,}"


def _openapi(path: Path) -> str:
    runs = read(path)
    whole = {run["of"] for run in runs if run["examples"] >= EXAMPLES and not run["failures"]}
    chains = " and chains" if CHAINS in whole else ""
    operations = len(whole - {CHAINS})
    return f"{total(runs, 'failures')} of {total(runs, 'requests'):,}; {operations} operations{chains} with so many"


def _fuzz(path: Path) -> str:
    runs = read(path)
    findings = sum(len(run["findings"]) for run in runs)
    return f"{findings} of {total(runs, 'runs'):,}, in the last run {len(runs[-1]['findings'])}"


def _machine(path: Path) -> str:
    return f"agreed on each of {total(read(path), 'steps'):,}"


def _proved(path: Path) -> str:
    record: dict[str, Any] = read_record(path)
    faults = record["faults"].values()
    return f"{total(list(faults), 'caught'):,} of {total(list(faults), 'above'):,}"


def _listed(counts: Sequence[int]) -> str:
    return " / ".join(map(str, counts))


RECOVERY = "python -m tests.chaos.recovery --kills 200"
PROMISES = (
    Promise(
        "Accepted jobs lost / wrong / doubled / stuck / failed for good by a fault that passed",
        "make chaos-long",
        "none of 100,000 under 1,000 faults",
        "chaos",
        _chaos,
    ),
    Promise(
        "Jobs that a cell's death cost / answers of other cells that it changed, or refusals that were not as promised",
        "make chaos-cells",
        "none of 1,500 jobs under 12 faults",
        "chaos_cells",
        _cells,
    ),
    Promise("Until the job of a killed child runs, p99", RECOVERY, "≤ 1 s", "recovery_*", _recovered("child", "p99_s")),
    Promise("Until the job of a lost host runs, max", RECOVERY, "≤ 8 s", "recovery_*", _recovered("worker", "max_s")),
    Promise(
        "Jobs lost, unreadable, wrong or with an attempt used up between two versions",
        "python -m tests.chaos.mixed_versions",
        "none of 10,000 each way",
        "mixed_versions",
        _mixed,
    ),
    Promise(
        "Growth of any process in steady use; jobs lost",
        "make soak",
        "< 1 MiB/h; none of 1,000,000",
        "soak",
        _soak,
    ),
    Promise(
        "Malformed requests with a wrong answer / restarts / tracebacks",
        "make malformed",
        "none of 1,000,000",
        "malformed",
        _malformed,
    ),
    Promise(
        "Answers that are not as the OpenAPI document says",
        'make fuzz-api ARGS="--examples 1000"',
        "none, every operation and chains with 1,000 examples",
        "fuzz_api",
        _openapi,
    ),
    Promise("Inputs that break a parser", "make fuzz", "none of 50,000,000", "fuzz", _fuzz),
    Promise("Any history: both ledgers agree", "make machine", "50,000 steps", "machine", _machine),
    Promise(
        "Wrong products beyond their class that the check catches (CPU)",
        "make prove",
        "≥ 99.9 %",
        "prove_cpu",
        _proved,
    ),
)
