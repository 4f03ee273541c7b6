"""The section of docs/reliability.md on two versions that work with one Redis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.tables.reliability.runs import made, runs_of, total
from tools.markdown import table


def mixed(results: Path) -> Iterator[str]:
    """The parts of the section; empty without a record."""
    if not (runs := runs_of(results, "mixed_versions")):
        return
    bad = sum((Counter(run["bad"]) for run in runs), Counter[str]())
    others = ", ".join(dict.fromkeys(run["other"] for run in runs))
    yield (
        f"{made(runs)} The other version: {others}. {total(runs, 'jobs'):,} jobs in {len(runs)} runs. Lost, unlisted, "
        f"unreadable, wrong, failed or with an attempt used up: {_list(bad)}."
    )
    ways = sum((Counter(run["ways"]) for run in runs), Counter[str]())
    yield table(("done for and by", "jobs"), [(way, f"{count:,}") for way, count in sorted(ways.items())]).rstrip()


def _list(bad: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in bad.items()) or "none"
