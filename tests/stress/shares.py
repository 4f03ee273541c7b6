"""A run's products shared out among processes: the CPU's reference takes longer than a GPU's product."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

ENDED_WELL = (0, 1)  # 1: a product was wrong
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Share:
    """Products of the run by number."""

    first: int
    count: int


def shares(first: int, count: int, processes: int) -> list[Share]:
    ends = [first + count * part // processes for part in range(processes + 1)]
    return [Share(begin, end - begin) for begin, end in pairwise(ends) if end > begin]


def run_shares(asked: Sequence[Share], options: Sequence[str], ends_at: float) -> tuple[list[int], list[str]]:
    """Numbers of the products that there was time for, and what was wrong. Raises RuntimeError where one broke off."""
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
        if broken := [one.args for one in running if one.wait() not in ENDED_WELL]:
            raise RuntimeError(f"these broke off: {broken}")
        records = [json.loads(path.read_bytes()) for path in paths]
    numbers = [number for one in records for number in range(one["first"], one["first"] + one["products"])]
    return numbers, [failure for one in records for failure in one["failures"]]
