"""Sends requests that are wrong in every way that is thought of, and counts what must not come back.

    make malformed ARGS="--seed 7 --requests 5000 --processes 1"    # the same requests again
    make malformed ARGS="--requests 1000000 --for-s 480 --out benchmarks/results/malformed.json.gz"

The requests are sent in runs of at most `--each`, each with a seed of its own and a service started for it. With
`--out`, runs are added to a record, from the seed after the last one there, until it has so many requests or the time
is up: called again, it goes on.

Exits with 1 where an answer was a 5xx other than a 503 that says when to come back, where an error had no sentence or a
whole request no answer, where a process ended, or where a log has a traceback.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from secrets import randbelow
from tempfile import TemporaryDirectory
from typing import Any

from tests.malformed.run import Servers, Share, Tally, run
from tests.malformed.server import Attacked, attacked
from tests.support.runs import RunsRecord, origin

PACKAGES = ("fastapi", "starlette", "uvicorn", "httptools", "pydantic", "orjson")
MAX_PROCESSES = 1 << 10  # seeds of the processes of a run are its own
START_S = 25.0  # what a run takes beside its requests
LEAST_S = 5.0


def attack(servers: Servers, *, requests: int, seed: int, processes: int, seconds: float) -> Tally:
    """All shares, each from a process of its own where there are several."""
    each = -(-requests // processes)
    shares = [Share(servers, seed * MAX_PROCESSES + index, each, seconds) for index in range(processes)]
    if processes == 1:
        return run(shares[0])
    total = Tally()
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for tally in pool.map(run, shares):
            total.add(tally)
    return total


def found(server: Attacked, tally: Tally, processes: set[int]) -> dict[str, Any]:
    """What a record has of it. `processes` are the ids of those that lived at first."""
    times_ms = sorted(tally.answer_ms)
    return {
        "requests": tally.sent,
        "statuses": {str(status): count for status, count in sorted(tally.statuses.items())},
        "mutations": dict(sorted(tally.mutations.items())),
        "told_503": tally.told_503,
        "bad": dict(tally.bad),
        "restarts": len(processes - server.ids()),
        "tracebacks": server.tracebacks(),
        "answer_p50_ms": round(times_ms[len(times_ms) // 2], 2),
        "answer_p99_ms": round(times_ms[len(times_ms) * 99 // 100], 2),
    }


def passed(result: dict[str, Any]) -> bool:
    return not (result["bad"] or result["restarts"] or result["tracebacks"])


def run_one(asked: argparse.Namespace, seed: int, requests: int, seconds: float) -> dict[str, Any]:
    """A row of the record."""
    print(f"seed {seed}: {requests} requests", flush=True)
    began = time.monotonic()
    with TemporaryDirectory() as directory, attacked(Path(directory), api_processes=asked.api_processes) as server:
        servers, processes, before = server.servers(), server.ids(), server.rss_bytes()
        tally = attack(servers, requests=requests, seed=seed, processes=asked.processes, seconds=seconds)
        result = found(server, tally, processes)
        if passed(result):
            result["rss_growth_mib"] = round((server.rss_bytes() - before) / 2**20)
        else:
            print(server.stack.logs(20_000))
    print("\n".join([json.dumps(result, indent=1), *map(json.dumps, tally.kept)]), flush=True)
    return {
        "seed": seed,
        **origin(*PACKAGES, commit=asked.commit),
        "processes": asked.processes,
        "seconds": round(time.monotonic() - began),
        **result,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    asked = _parser().parse_args(arguments)
    record, ends_at = RunsRecord(asked.out), time.monotonic() + asked.for_s
    seed = asked.seed or 1 + max((run["seed"] for run in record.runs), default=0 if asked.out else randbelow(2**31))
    while (missing := asked.requests - record.total("requests")) > 0:
        seconds = ends_at - START_S - time.monotonic()
        if seconds < LEAST_S:
            break
        record.add(run_one(asked, seed, min(missing, asked.each), seconds))
        seed += 1
    print(f"{record.total('requests')} requests in {len(record.runs)} runs", flush=True)
    return 0 if all(passed(run) for run in record.runs) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.malformed", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--requests", type=int, default=1_000_000, help="in all runs of the record together")
    parser.add_argument("--each", type=int, default=50_000, help="the most requests of a run")
    parser.add_argument("--seed", type=int, help="of the first run")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 1) - 2))
    parser.add_argument("--api-processes", type=int, default=1, help="of each of the two services")
    parser.add_argument("--for-s", type=float, default=86_400.0, help="all of it is to be done by then")
    parser.add_argument("--commit", help="what is checked out, where git does not know")
    parser.add_argument("--out", type=Path, help="record that the runs are added to")
    return parser


if __name__ == "__main__":
    sys.exit(main())
