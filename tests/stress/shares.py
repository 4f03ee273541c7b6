"""A run's products shared out among processes: the CPU's reference takes longer than a GPU's product."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.recorded import read

ENDED_WELL = (0, 1)  # 1: a product was wrong
LAST_PRODUCT_S = 60.0  # that a product may take which was begun just in time
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


Failure = tuple[int, str]  # number of a product, and what is wrong with it


class Outcome(NamedTuple):
    """Of a run. `refused`: by a library that has no such product, with its reason."""

    numbers: list[int]  # of the products that there was time for
    failures: list[Failure]
    refused: list[Failure]


@dataclass(frozen=True, slots=True)
class Share:
    """Products of the run by number."""

    first: int
    count: int

    def __str__(self) -> str:
        return f"products {self.first} to {self.first + self.count - 1}"


def shares(first: int, count: int, processes: int) -> list[Share]:
    ends = [first + count * part // processes for part in range(processes + 1)]
    return [Share(begin, end - begin) for begin, end in pairwise(ends) if end > begin]


def run_shares(asked: Sequence[Share], options: Sequence[str], ends_at: float) -> Outcome:
    """Of all processes. Of one that breaks off, or does not end soon after its time, that alone is known."""
    threads = dict.fromkeys(THREADS, str(max(1, (os.cpu_count() or 1) // len(asked))))
    with TemporaryDirectory() as name:
        paths = [Path(name) / f"{share.first}.json" for share in asked]
        left = max(0.0, ends_at - time.monotonic())
        command = [sys.executable, "-m", "tests.stress", *options, "--seconds", f"{left:.1f}"]
        running = [
            subprocess.Popen(
                [*command, "--first", str(share.first), "--count", str(share.count), "--out", str(path)],
                env=os.environ | threads,
            )
            for share, path in zip(asked, paths, strict=True)
        ]
        statuses = [status_of(one, ends_at + LAST_PRODUCT_S) for one in running]
        records = [read(path) for path in paths if path.exists()]
    lost = [
        (share.first, f"the process of {share} {'did not end' if status is None else f'ended with status {status}'}.")
        for share, status in zip(asked, statuses, strict=True)
        if status not in ENDED_WELL
    ]
    numbers = [
        number
        for one in records
        for number in range(one["first"], one["first"] + one["products"] + len(one["refused"]))
    ]
    failures, refused = (
        [(number, said) for one in records for number, said in one[name]] for name in ("failures", "refused")
    )
    return Outcome(numbers, [*failures, *lost], refused)


def status_of(process: subprocess.Popen[bytes], at: float) -> int | None:
    """The exit status; None of a process that had to be ended then."""
    try:
        return process.wait(max(0.0, at - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None
