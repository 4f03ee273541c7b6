"""How fast something grows, in spite of noise and jumps.

The slope is Theil's and Sen's: the median of the slopes between all pairs of points. Its 95 % interval follows from
Kendall's S (Sen, 1968). Neighbouring samples are alike, which would make that interval too narrow, so the points are
the medians of BLOCKS stretches of time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

BLOCKS = 24
Z_95 = 1.96


@dataclass(frozen=True, slots=True)
class Slope:
    """Per hour, in the unit of what was measured; `low` and `high`: its 95 % interval."""

    per_h: float
    low: float
    high: float


def slope(times_s: Sequence[float], values: Sequence[float]) -> Slope:
    """Raises ValueError for fewer than four points, or points of one moment."""
    points = _blocks(times_s, values)
    slopes = sorted((v - u) / (t - s) * 3600 for (s, u), (t, v) in combinations(points, 2) if t > s)
    if len(points) < 4 or not slopes:
        raise ValueError(f"{len(points)} points in time are too few for a slope")
    n = len(points)
    margin = Z_95 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low, high = math.floor((len(slopes) - margin) / 2), math.ceil((len(slopes) + margin) / 2)
    return Slope(median(slopes), slopes[max(low, 0)], slopes[min(high, len(slopes) - 1)])


def _blocks(times_s: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
    """In order of time, as many points as there are, or BLOCKS."""
    size = max(1, len(times_s) // BLOCKS)
    starts = range(0, len(times_s) - size + 1, size)
    return [(median(times_s[i : i + size]), median(values[i : i + size])) for i in starts]
