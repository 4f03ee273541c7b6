"""The sections of docs/reliability.md on the recorded `make malformed`, `make fuzz-api` and `make fuzz`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.tables.reliability.runs import Run, device, made, runs_of, total
from tools.markdown import table

PHASES = ("examples", "coverage", "fuzzing", "stateful")  # of Schemathesis


def malformed(results: Path) -> Iterator[str]:
    """The parts of the section; empty without a record."""
    runs = runs_of(results, "malformed")
    if not runs:
        return
    columns = ("device", "commit", "runs", "requests", "wrong answers", "503 that says when", "restarts", "tracebacks")
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((device(run), str(run["commit"])), []).append(run)
    yield table(
        columns, [*(_malformed_row(*where, of) for where, of in groups.items()), _malformed_row("all", "", runs)]
    ).rstrip()


def openapi(results: Path) -> Iterator[str]:
    """The same for requests generated from the OpenAPI document."""
    runs = runs_of(results, "fuzz_api")
    if not runs:
        return
    names = sorted({name for run in runs for name in run["operations"]}, key=lambda name: name.split()[::-1])
    columns = ("operation", "examples", "at bounds", "random", "in chains", "not as described")
    sums = (total(runs, "requests"), total(runs, "failures"))
    all_row = ("all", *(f"{sum(_counts(run, phase) for run in runs):,}" for phase in PHASES), f"{sums[1]:,}")
    yield table(columns, [*(_openapi_row(name, runs) for name in names), all_row]).rstrip()
    yield f"{made(runs)} {sums[0]:,} requests; runs: {len(runs)}."
    if found := [what for run in runs for what in run.get("found", ())]:
        yield "Not as described: " + "; ".join(f"`{what}`" for what in found) + "."


def _openapi_row(name: str, runs: Sequence[Run]) -> tuple[str, ...]:
    found = [run["operations"][name] for run in runs if name in run["operations"]]
    counts = [sum(each.get(phase, 0) for each in found) for phase in (*PHASES, "failures")]
    return (f"`{name}`", *(f"{count:,}" for count in counts))


def _counts(run: Run, phase: str) -> int:
    return sum(each.get(phase, 0) for each in run["operations"].values())


def fuzz(results: Path) -> Iterator[str]:
    """The same for the parsers. Edges: the maximum of any process."""
    runs = runs_of(results, "fuzz")
    if not runs:
        return
    rows = [_fuzz_row(name, runs) for name in sorted({name for run in runs for name in run["targets"]})]
    findings = sum(len(run["findings"]) for run in runs)
    yield table(("target", "runs", "edges"), [*rows, ("all", f"{total(runs, 'runs'):,}", "")]).rstrip()
    yield f"{made(runs)} Inputs that broke something: {findings or 'none'}."


def _fuzz_row(name: str, runs: Sequence[Run]) -> tuple[str, ...]:
    found = [run["targets"][name] for run in runs if name in run["targets"]]
    return (f"`{name}`", f"{total(found, 'runs'):,}", f"{max(each['edges'] for each in found):,}")


def _malformed_row(device: str, commit: str, runs: Sequence[Run]) -> tuple[str, ...]:
    counts = (
        *(len(runs), total(runs, "requests"), sum(sum(run["bad"].values()) for run in runs)),
        *(total(runs, name) for name in ("told_503", "restarts", "tracebacks")),
    )
    return (device, commit, *(f"{count:,}" for count in counts))
