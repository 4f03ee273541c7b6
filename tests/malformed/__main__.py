"""Sends requests that are wrong in every way that is thought of, and counts what must not come back.

    make malformed ARGS="--requests 1000000 --out benchmarks/results/malformed.json"
    make malformed ARGS="--seed 7 --requests 5000 --processes 1"    # the same requests again

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
from worker.cpu.environment import dated_environment

PACKAGES = ("fastapi", "starlette", "uvicorn", "httptools", "pydantic", "orjson")


def attack(servers: Servers, *, requests: int, seed: int, processes: int, seconds: float) -> Tally:
    """All shares, each from a process of its own where there are several."""
    shares = [Share(servers, seed + index, -(-requests // processes), seconds) for index in range(processes)]
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


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.malformed", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=randbelow(2**31))
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 1) - 2))
    parser.add_argument("--api-processes", type=int, default=1, help="of each of the two services")
    parser.add_argument("--seconds", type=float, default=3600.0, help="nothing is sent after so long")
    parser.add_argument("--out", type=Path, help="record of the run")
    asked = parser.parse_args(arguments)
    print(f"seed {asked.seed}", flush=True)
    began = time.monotonic()
    with TemporaryDirectory() as directory, attacked(Path(directory), api_processes=asked.api_processes) as server:
        servers, processes, before = server.servers(), server.ids(), server.rss_bytes()
        tally = attack(
            servers, requests=asked.requests, seed=asked.seed, processes=asked.processes, seconds=asked.seconds
        )
        result = found(server, tally, processes)
        if passed(result):
            result["rss_growth_mib"] = round((server.rss_bytes() - before) / 2**20)
        else:
            print(server.stack.logs(20_000))
    print(json.dumps(result, indent=1))
    print("\n".join(json.dumps(each) for each in tally.kept))
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    if asked.out:
        document = {
            "environment": dated_environment(*PACKAGES),
            "seed": asked.seed,
            "seconds": round(time.monotonic() - began),
        }
        asked.out.write_text(json.dumps(document | result, indent=1) + "\n")
    return 0 if passed(result) else 1


if __name__ == "__main__":
    sys.exit(main())
