"""Compares the service of this checkout with that of another, which is an earlier version perhaps, on one machine: both
run, and take turns.

    git worktree add ../before 97cb6de5
    python -m benchmarks.measure.path.versions --other ../before --out versions.json

Products are float32; `inline` and `stored` are as `benchmarks.measure.path` has them, one caller, and `burst` is that
many stored products asked for at the same moment, by product. A ratio is the median over turns of this version's time
by the other's; beside it are the quartiles.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.measure.path.__main__ import running, store_folder
from benchmarks.measure.path.caller import ServiceCaller, normal
from benchmarks.measure.path.rows import WARM_UPS, Rows
from jobs.settings import Settings
from service.local.api import process_count
from worker.cpu.environment import dated_environment

LINES = ("inline:16", "inline:1024", "stored:16", "stored:1024", "burst:256", "burst:1024")
IN_A_ROW, BURST, MIN_TURNS = 4, 64, 4  # quartiles need a few


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, required=True, help="a checkout of it")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--seconds", type=float, default=120.0, help="of turns, after both have started")
    parser.add_argument("--lines", nargs="+", default=LINES)
    return parser.parse_args(arguments)


class Products:
    """Products of one line at one version."""

    def __init__(self, service: ServiceCaller, line: str) -> None:
        self._service = service
        self.in_job_ms: list[float] = []  # from a job's submission to its end, without body and reply; not of bursts
        kind, _, size = line.partition(":")
        n = int(size)
        a, b = normal((n, n), 3 * n), normal((n, n), 3 * n + 1)
        if kind == "inline":
            self._request = service.inline(a, b)
        else:
            self._request = service.stored(service.upload(a)[0], service.upload(b)[0])
        for _ in range(WARM_UPS):
            self._of_burst()
        self.kernel: str = service.record(service.timed(self._request).location)["kernel"]
        self.ms = self._of_burst if kind == "burst" else self._of_one  # milliseconds of each

    def _of_burst(self) -> float:
        return 1e3 / self._service.burst_per_s(self._request, BURST)

    def _of_one(self) -> float:
        times = []
        for _ in range(IN_A_ROW):
            answer = self._service.timed(self._request)
            times.append(answer.ms)
            self.in_job_ms.append(self._service.record(answer.location)["timing"]["total_ms"])
            self._service.delete(answer.location)
        return median(times)


def by_turns(versions: Mapping[str, Mapping[str, Products]], seconds: float) -> dict[str, dict[str, list[float]]]:
    """By line and version, a time for each turn. The version that comes first is another in each turn."""
    names, lines = list(versions), list(next(iter(versions.values())))
    times: dict[str, dict[str, list[float]]] = {line: {name: [] for name in names} for line in lines}
    ends_at, turns = time.monotonic() + seconds, 0
    while turns < MIN_TURNS or time.monotonic() < ends_at:
        for line in lines:
            for name in names:
                times[line][name].append(versions[name][line].ms())
        names.reverse()
        turns += 1
    return times


def recorded(versions: Mapping[str, Mapping[str, Products]], line: str) -> dict[str, Any]:
    """What the jobs' own records say."""
    of_line = {name: version[line] for name, version in versions.items()}
    in_job = {f"{name}_in_job_ms": median(each.in_job_ms) for name, each in of_line.items() if each.in_job_ms}
    return in_job | {f"{name}_kernel": each.kernel for name, each in of_line.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    asked = parsed(arguments)
    api_processes = process_count(Settings())
    about: dict[str, Any] = {"load_before": [round(load, 2) for load in os.getloadavg()], "store": str(store_folder())}
    with ExitStack() as exits:
        services = {  # one after the other: both would compile for as long at the same time
            name: exits.enter_context(running((asked.device,), api_processes, tree=tree))[1]
            for name, tree in (("this", None), ("other", asked.other.resolve()))
        }
        about |= {"api_processes": api_processes, "device": services["this"].device_name()}
        rows = Rows(asked.out, about | {"environment": dated_environment()})
        versions = {name: {line: Products(service, line) for line in asked.lines} for name, service in services.items()}
        for line, times in by_turns(versions, asked.seconds).items():
            kind, _, n = line.partition(":")
            ratios = [this / other for this, other in zip(times["this"], times["other"], strict=True)]
            low, middle, high = quantiles(ratios)
            found = {f"{name}_ms": median(values) for name, values in times.items()} | recorded(versions, line)
            rows.add(kind, n=int(n), ratio=middle, low=low, high=high, turns=len(ratios), **found)
    print(asked.out)


if __name__ == "__main__":
    main()
