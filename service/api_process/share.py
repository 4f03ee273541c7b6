"""One API process's share of limits that apply to all of them together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Share:
    """Process `index` of `processes`. Their metrics are in the directory `metrics`; a single process needs none."""

    index: int
    processes: int
    metrics: Path | None

    def of(self, total: int, *, minimum: int = 1) -> int:
        """This process's part of a limit, rounded down, but at least `minimum`."""
        return max(minimum, total // self.processes)


ALONE = Share(0, 1, None)
