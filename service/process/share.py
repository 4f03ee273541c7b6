"""What one of several API processes has of what is bounded for all of them together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Share:
    """Process `index` of `processes`. They count for /metrics in the directory `metrics`; one alone needs none."""

    index: int
    processes: int
    metrics: Path | None

    def of(self, total: int, *, minimum: int = 1) -> int:
        """This process's part of a bound, rounded down, and `minimum` at least."""
        return max(minimum, total // self.processes)


ALONE = Share(0, 1, None)
