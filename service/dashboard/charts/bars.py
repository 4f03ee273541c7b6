"""A stacked bar: divides a whole into parts side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WIDTH = 1000.0  # of the bar, in its own units
MIN_WIDTH = 3.0  # so that a short part can still be seen


@dataclass(frozen=True, slots=True)
class BarPart:
    """One part: its name, value, and position in the bar (`start` and `width` out of WIDTH)."""

    name: str
    value: float
    share: float  # of the whole, 0 to 1
    start: float
    width: float


def parts_of(values: Iterable[tuple[str, float]]) -> Sequence[BarPart]:
    """The parts side by side, in order; a part of 0 has no width. Parts too short to be seen are drawn MIN_WIDTH
    wide.
    """
    known = [(name, max(0.0, value)) for name, value in values]
    whole = sum(value for _, value in known) or 1.0
    widths = [max(MIN_WIDTH, WIDTH * value / whole) if value else 0.0 for _, value in known]
    squeeze = WIDTH / (sum(widths) or 1.0)
    parts, start = [], 0.0
    for (name, value), width in zip(known, widths, strict=True):
        parts.append(BarPart(name, value, value / whole, round(start, 2), round(width * squeeze, 2)))
        start += width * squeeze
    return parts
