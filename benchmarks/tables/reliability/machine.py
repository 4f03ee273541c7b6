"""The section of docs/reliability.md on the recorded `make machine`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.tables.reliability.runs import made, runs_of, total
from tools.markdown import table


def machine(results: Path) -> Iterator[str]:
    """The parts of the section; empty without a record."""
    if not (runs := runs_of(results, "machine")):
        return
    calls = sum(sum(counts.values()) for run in runs for counts in run["calls"].values())
    yield (
        f"{made(runs)} {total(runs, 'steps'):,} steps in {total(runs, 'lives'):,} lives, {calls:,} calls of each "
        f"ledger, seeds {runs[0]['seed']} to {runs[-1]['seed']}: the ledgers agreed on each answer, and every promise "
        f"held after each step. A worker left {total(runs, 'left_to_others'):,} jobs to others because it had made "
        "their products wrong."
    )
    cancels: dict[str, Counter[str]] = {}
    for run in runs:
        for state, counts in run["cancels"].items():
            cancels.setdefault(state, Counter()).update(counts)
    yield table(
        ("state of the job", "cancels that took effect", "that changed nothing"),
        [
            (state, f"{counts['took_effect']:,}", f"{counts['changed_nothing']:,}")
            for state, counts in sorted(cancels.items())
        ],
    ).rstrip()
