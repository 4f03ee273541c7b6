"""Sends a real service what schemathesis makes up from its OpenAPI document, operation by operation: its examples,
values at every bound and past it, random ones, and chains of requests. Each answer must be one that the document has.

    make fuzz-api ARGS="--examples 1000 --out benchmarks/results/fuzz_api.json"
    make fuzz-api ARGS="--examples 50 --seed 7 --for-s 300"

A row for each run is added to the record. Exits with 1 where an answer was not as described.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from secrets import randbelow
from tempfile import TemporaryDirectory
from typing import Any

from tests.malformed.server import LIMITS
from tests.openapi.run import PHASES, Outcome, made_up
from tests.support.runs import RunsRecord, origin
from tools.played.api import http_client
from tools.stack import Stack

PACKAGES = ("schemathesis", "hypothesis", "fastapi", "starlette", "pydantic", "uvicorn")


def run(asked: argparse.Namespace, directory: Path) -> Outcome:
    """Against a service of its own, with a worker on the CPU, and limits that keep it busy with answering."""
    with Stack(directory, settings={name: str(value) for name, value in LIMITS.items()}) as stack:
        with http_client(stack.url) as client:
            document = client.get("/openapi.json").json()
        return made_up(stack.url, document, examples=asked.examples, seed=asked.seed, seconds=asked.for_s)


def row(asked: argparse.Namespace, seconds: float, outcome: Outcome) -> dict[str, Any]:
    """Of the record. By operation: examples in each phase, kinds of failures, seconds but those of chains."""
    return {
        "seed": asked.seed,
        **origin(*PACKAGES, commit=asked.commit),
        "seconds": round(seconds),
        "examples": asked.examples,
        "requests": sum(sum(counts.values()) for counts in outcome.examples.values()),
        "failures": sum(map(len, outcome.failures.values())),
        "operations": {
            label: {
                **{phase: counts[phase] for phase in PHASES if counts[phase]},
                "failures": len(outcome.failures.get(label, {})),
                "seconds": round(outcome.seconds[label], 1),
            }
            for label, counts in outcome.examples.items()
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    asked = _parser().parse_args(arguments)
    print(f"seed {asked.seed}", flush=True)
    began = time.monotonic()
    with TemporaryDirectory() as directory:
        outcome = run(asked, Path(directory))
    record = RunsRecord(asked.out)
    record.add(row(asked, time.monotonic() - began, outcome))
    print(outcome.shown)
    print({name: record.runs[-1][name] for name in ("requests", "failures", "seconds")})
    return 1 if record.runs[-1]["failures"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.openapi", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--examples", type=int, default=100, help="random ones of each operation, and chains")
    parser.add_argument("--seed", type=int, default=randbelow(2**31))
    parser.add_argument("--for-s", type=int, help="what is not done by then is cut short")
    parser.add_argument("--commit", help="what is checked out, where git does not know")
    parser.add_argument("--out", type=Path, help="record that the run is added to")
    return parser


if __name__ == "__main__":
    sys.exit(main())
