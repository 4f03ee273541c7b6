"""How near a run came to the times and counts at which it gives up.

A bound that is nearly met fails on a slower machine, whatever the service does.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass
class Margins:
    """By what is bounded, the most that was seen and its bound. For many threads."""

    _seen: dict[str, tuple[float, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, what: str, seen: float, bound: float) -> None:
        with self._lock:
            most, _ = self._seen.get(what, (0.0, bound))
            self._seen[what] = round(max(seen, most), 2), bound

    def as_record(self) -> dict[str, list[float]]:
        """What came nearest to its bound first."""
        nearest = sorted(self._seen.items(), key=lambda each: each[1][0] / each[1][1], reverse=True)
        return {what: list(each) for what, each in nearest}
