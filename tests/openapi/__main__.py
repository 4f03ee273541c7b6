"""Sends a real service what schemathesis makes up from its OpenAPI document, operation by operation: its examples,
values at every bound and past it, random ones, and chains of requests. Each answer must be one that the document has.

    make fuzz-api ARGS="--examples 1000 --out benchmarks/results/fuzz_api.json.gz"
    make fuzz-api ARGS="--examples 50 --seed 7 --for-s 300"

A row for each operation, and one for chains, is added to the record: called again, it goes on with what was not done
with so many examples, or not as described. Exits with 1 where an answer was not as described.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import randbelow
from tempfile import TemporaryDirectory
from typing import Any

from tests.malformed.server import LIMITS
from tests.openapi.run import PHASES, Outcome, made_up, operations
from tests.support.runs import RunsRecord, origin
from tools.harness.api import http_client
from tools.stack import Stack

PACKAGES = ("schemathesis", "hypothesis", "fastapi", "starlette", "pydantic", "uvicorn")


CHAINS = "chains"
OF_ONE, OF_CHAINS = PHASES[:-1], PHASES[-1:]


def missing(names: Sequence[str], runs: Sequence[Mapping[str, Any]], examples: int) -> list[str]:
    """What no run has done with so many examples and all answers as described."""
    done = {run["of"] for run in runs if run["examples"] >= examples and not run["failures"]}
    return [name for name in (*names, CHAINS) if name not in done]


def row(asked: argparse.Namespace, of: str, seed: int, seconds: float, outcome: Outcome) -> dict[str, Any]:
    """Of the record. By operation: examples in each phase, kinds of failures, seconds but those of chains."""
    return {
        "of": of,
        "seed": seed,
        **origin(*PACKAGES, commit=asked.commit),
        "seconds": round(seconds),
        "examples": asked.examples,
        "requests": sum(sum(counts.values()) for counts in outcome.examples.values()),
        "failures": sum(map(len, outcome.failures.values())),
        "found": [f"{label}: {what}"[:300] for label, each in outcome.failures.items() for what in each],
        "operations": {
            label: {
                **{phase: counts[phase] for phase in PHASES if counts[phase]},
                "failures": len(outcome.failures.get(label, {})),
                "seconds": round(outcome.seconds[label], 1),
            }
            for label, counts in outcome.examples.items()
        },
    }


def add_missing(asked: argparse.Namespace, url: str, record: RunsRecord) -> None:
    """To the record. Nothing begins once its time is up."""
    ends_at = time.monotonic() + asked.for_s
    with http_client(url) as client:
        document = client.get("/openapi.json").json()
    for of in missing(operations(document), record.runs, asked.examples):
        began = time.monotonic()
        if began > ends_at:
            break
        seed = asked.seed + len(record.runs)
        named = {"phases": OF_CHAINS} if of == CHAINS else {"phases": OF_ONE, "operation": of}
        outcome = made_up(url, document, examples=asked.examples, seed=seed, **named)
        record.add(row(asked, of, seed, time.monotonic() - began, outcome))
        print(of, {name: record.runs[-1][name] for name in ("requests", "failures", "seconds")}, flush=True)
        print(outcome.shown, end="", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    asked = _parser().parse_args(arguments)
    print(f"seed {asked.seed}", flush=True)
    record = RunsRecord(asked.out)
    limits = {name: str(value) for name, value in LIMITS.items()}  # that keep it busy with answering
    with TemporaryDirectory() as directory, Stack(Path(directory), settings=limits) as stack:
        add_missing(asked, stack.url, record)
    return 1 if record.total("failures") else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.openapi", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--examples", type=int, default=100, help="random ones of each operation, and chains")
    parser.add_argument("--seed", type=int, default=randbelow(2**31))
    parser.add_argument("--for-s", type=float, default=86_400.0, help="no operation begins after so long")
    parser.add_argument("--commit", help="what is checked out, where git does not know")
    parser.add_argument("--out", type=Path, help="record that the run is added to")
    return parser


if __name__ == "__main__":
    sys.exit(main())
