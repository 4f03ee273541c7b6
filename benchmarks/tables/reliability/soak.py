"""The section of docs/reliability.md on the recorded `make soak`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.tables.reliability.runs import Run, made, runs_of, total
from tools.markdown import table


def soak(results: Path) -> Iterator[str]:
    """The parts of the section; empty without a record. Memory figures are those of the last run."""
    if not (runs := runs_of(results, "soak")):
        return
    yield made(runs)
    yield table(
        ("run", "API processes", "workers", "jobs", "seconds", "lost", "wrong", "found to grow"), _runs(runs)
    ).rstrip()
    last = runs[-1]
    verdict = last["verdict"]
    yield (
        f"The last of them, less its first {last['asked']['warm_up_s']:.0f} s. Too short a run to say: "
        f"{_list(verdict['undecided'])}." + (f" Counted: {verdict['counted']}." if "counted" in verdict else "")
    )
    yield table(
        ("process", "memory grows, MiB/h", "interval", "descriptors, first and last quarter"),
        [
            (name, f"{each['per_h']:.2f}", f"{each['low']:.2f} to {each['high']:.2f}", _first_and_last(verdict, name))
            for name, each in verdict["memory"].items()
        ],
    ).rstrip()
    yield table(
        ("beside them", "median of the first quarter", "of the last"),
        [(name, f"{each['first']:,.0f}", f"{each['last']:,.0f}") for name, each in verdict["others"].items()],
    ).rstrip()


def _runs(runs: list[Run]) -> list[tuple[str, ...]]:
    return [
        (
            f"{number}",
            *(f"{run['asked'][name]}" for name in ("api_processes", "workers")),
            *(f"{run['jobs']:,}", f"{run['seconds']:,.0f}", f"{run['lost']}", f"{len(run['wrong'])}"),
            _list(run["verdict"]["growing"]),
        )
        for number, run in enumerate(runs, 1)
    ] + [
        (
            "all",
            "",
            "",
            f"{total(runs, 'jobs'):,}",
            "",
            f"{total(runs, 'lost')}",
            f"{sum(len(run['wrong']) for run in runs)}",
            "",
        )
    ]


def _list(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _first_and_last(verdict: dict[str, dict[str, dict[str, float]]], name: str) -> str:
    each = verdict["descriptors"][name]
    return f"{each['first']:.0f}, {each['last']:.0f}"
