"""The host's processor during a benchmark: the size of its caches, and the load of other processes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")  # index*/size there is as in 32768K
PROCESSOR_TIMES = Path("/proc/stat")
UNKNOWN_CACHE_BYTES = 64 << 20
IDLE_COLUMNS = (3, 4)  # of the first line there: idle, and waiting for a disk
GUEST_COLUMNS = 8  # from here on what is counted before is counted again
SHORTEST_S = 0.5  # the system counts in hundredths of a second
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def last_cache_bytes() -> int:
    """Size of the largest cache; 64 MiB where the system does not say."""
    sizes = [_bytes(path) for path in CACHES.glob("index*/size")]
    return max(sizes, default=0) or UNKNOWN_CACHE_BYTES


def _bytes(path: Path) -> int:
    try:
        text = path.read_text().strip()
        return int(text[:-1]) * UNITS[text[-1]]
    except (OSError, ValueError, KeyError, IndexError):
        return 0


@dataclass(frozen=True, slots=True)
class ProcessorTimes:
    """Seconds of all cores together, since the host and this process started."""

    at_s: float
    busy_s: float | None  # None where the system does not say
    own_s: float

    @classmethod
    def now(cls) -> Self:
        return cls(time.monotonic(), _busy_s(), time.process_time())

    def others_share(self, later: Self) -> float:
        """The share of all cores' time that other processes used in between, 0 to 1; 0 if unknown."""
        passed_s = later.at_s - self.at_s
        if self.busy_s is None or later.busy_s is None or passed_s < SHORTEST_S:
            return 0.0
        others_s = (later.busy_s - self.busy_s) - (later.own_s - self.own_s)
        return max(0.0, others_s / (passed_s * (os.cpu_count() or 1)))


def _busy_s() -> float | None:
    try:
        ticks = [int(word) for word in PROCESSOR_TIMES.read_text().split("\n", 1)[0].split()[1:]]
    except (OSError, ValueError):
        return None
    busy = sum(count for place, count in enumerate(ticks[:GUEST_COLUMNS]) if place not in IDLE_COLUMNS)
    return busy / os.sysconf("SC_CLK_TCK")
