"""Fuzzes the parsers of what strangers send, guided by the branches that are taken (atheris).

    make fuzz ARGS="--target npy --runs 1000000"
    make fuzz ARGS="--for-s 480 --processes 16 --keep --out benchmarks/results/fuzz.json"

Processes take turns with the targets. A row of all targets is added to the record every `--each-s` seconds. `--keep`
puts what led to new code into tests/fuzz/corpus, which `make test` replays. Exits with 1 where a parser raised what it
must not, took longer than 10 s for an input or more than 1 GiB; such inputs are in `.fuzz`.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import randbelow
from tempfile import TemporaryDirectory
from typing import Any

from tests.fuzz.corpus import keep
from tests.fuzz.run import Found, Share, run
from tests.fuzz.table import TARGETS
from tests.support.runs import RunsRecord, origin

PACKAGES = ("atheris", "pydantic", "orjson", "numpy", "fastapi", "starlette")
FOUND_FOLDER = Path(".fuzz")
START_S = 6.0  # of a child, beside its time
LEAST_SHARE_S = 10.0
MAX_ROUNDS = 1 << 16


def shares(names: Sequence[str], *, runs: int, processes: int, seconds: float, seed: int) -> list[Share]:
    """As many for each process: rounds of the same length. Other seeds begin with other targets."""
    rounds = math.ceil(len(names) / processes)
    count = len(names) if runs else rounds * processes
    each_s = seconds / rounds - START_S
    return [Share(names[(seed + at) % len(names)], seed * 1000 + at, runs, max(each_s, 1.0)) for at in range(count)]


def fuzz(asked: Sequence[Share], processes: int) -> dict[str, Found]:
    """By target."""
    found = {share.target: Found() for share in asked}
    with TemporaryDirectory() as directory, ThreadPoolExecutor(processes) as pool:
        folders = [Path(directory) / str(share.seed) for share in asked]
        for share, one in zip(asked, pool.map(run, asked, folders, [FOUND_FOLDER] * len(asked)), strict=True):
            print(f"{share.target}: {one.runs} runs, {one.edges} edges {one.findings or ''}", flush=True)
            found[share.target].add(one)
    return found


def row(asked: argparse.Namespace, seed: int, seconds: float, found: dict[str, Found]) -> dict[str, Any]:
    """Of the record."""
    return {
        "seed": seed,
        **origin(*PACKAGES, commit=asked.commit),
        "processes": asked.processes,
        "seconds": round(seconds),
        "runs": sum(each.runs for each in found.values()),
        "findings": [finding for each in found.values() for finding in each.findings],
        "targets": {
            name: {"runs": each.runs, "edges": each.edges, "features": each.features}
            for name, each in sorted(found.items())
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    asked = _parser().parse_args(arguments)
    names, record, ends_at = asked.targets or list(TARGETS), RunsRecord(asked.out), time.monotonic() + asked.for_s
    least_s = math.ceil(len(names) / asked.processes) * LEAST_SHARE_S
    findings = 0
    for seed in range(asked.seed, asked.seed + (1 if asked.runs else MAX_ROUNDS)):
        seconds = min(asked.each_s, ends_at - time.monotonic())
        if seconds < least_s:
            break
        findings += _round(asked, names, seed, seconds, record)
    print(f"{record.total('runs')} runs in all", flush=True)
    return 1 if findings else 0


def _round(asked: argparse.Namespace, names: Sequence[str], seed: int, seconds: float, record: RunsRecord) -> int:
    """All targets once, for a row of the record; how many inputs broke something."""
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    parts = shares(names, runs=asked.runs, processes=asked.processes, seconds=seconds, seed=seed)
    found = fuzz(parts, asked.processes)
    record.add(row(asked, seed, time.monotonic() - began, found))
    if asked.keep:
        for name, each in found.items():
            print(f"{name}: {keep(TARGETS[name], each.inputs)} inputs kept", flush=True)
    return len(record.runs[-1]["findings"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--target", dest="targets", choices=[*TARGETS], action="append", help="several; default: all")
    parser.add_argument("--runs", type=int, default=0, help="of each target; default: as many as there is time for")
    parser.add_argument("--for-s", type=float, default=600.0, help="all of it is to be done by then")
    parser.add_argument("--each-s", type=float, default=600.0, help="what a row of the record takes at most")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 1) - 1))
    parser.add_argument("--seed", type=int, default=randbelow(2**20))
    parser.add_argument("--keep", action="store_true", help="what led to new code, for `make test`")
    parser.add_argument("--commit", help="what is checked out, where git does not know")
    parser.add_argument("--out", type=Path, help="record that the run is added to")
    return parser


if __name__ == "__main__":
    sys.exit(main())
