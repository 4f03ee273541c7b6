"""Watches a GPU while something is timed on it: what held its clock down, heat, power, other processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import fmean

from jobs.benchmarks.records import DeviceState
from worker.cuda.bench.nvml import Nvml
from worker.cuda.bench.plan import is_contended
from worker.device.bench import Watched

EVERY_S = 0.05
THROTTLING = ("sw_thermal", "hw_thermal", "power_brake")  # reasons that say the figures are not the device's best


@contextmanager
def watched(nvml: Nvml) -> Iterator[Watched]:
    """Observations that are complete when the context ends; unknown values are null and set no flag."""
    seen = Watched()
    before, processes = nvml.event_reason_ns(), nvml.compute_processes()
    with _Poll(nvml) as poll:
        yield seen
    after = nvml.event_reason_ns()
    held_ns = {name: after[name] - before[name] for name in before if name in after}
    seen.state = poll.state(held_ns)
    family = own_family()
    seen.contended = is_contended(processes, family) or is_contended(nvml.compute_processes(), family)
    seen.throttled = any(held_ns.get(name, 0) > 0 for name in THROTTLING)
    seen.power_limited = held_ns.get("power_cap", 0) > 0


def own_family() -> frozenset[int]:
    """This process, its parent and its children."""
    children: list[int] = []
    for listed in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            children += map(int, listed.read_text().split())
    return frozenset((os.getpid(), os.getppid(), *children))


class _Poll:
    """Looks at what has no counter, in a thread of its own."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._temperatures_c: list[float] = []
        self._powers_w: list[float] = []
        self._memory_clock_mhz: float | None = None

    def __enter__(self) -> _Poll:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def state(self, held_ns: dict[str, int]) -> DeviceState:
        return DeviceState(
            mem_clock_mhz=self._memory_clock_mhz,
            temp_c_start=self._temperatures_c[0] if self._temperatures_c else None,
            temp_c_max=max(self._temperatures_c, default=None),
            power_w_mean=fmean(self._powers_w) if self._powers_w else None,
            event_reason_ns=held_ns,
        )

    def _run(self) -> None:
        while not self._end.wait(EVERY_S):
            self._look()

    def _look(self) -> None:
        for values, value in (
            (self._temperatures_c, self._nvml.temperature_c()),
            (self._powers_w, self._nvml.power_w()),
        ):
            if value is not None:
                values.append(value)
        self._memory_clock_mhz = self._nvml.memory_clock_mhz()
