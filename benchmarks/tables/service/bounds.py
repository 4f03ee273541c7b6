"""Targets of the service, and records in order of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.recorded import read


@dataclass(frozen=True, slots=True)
class Bound:
    """The required value, the desired value, and the value that a probe or arithmetic shows to be possible."""

    must: float
    aim: float | None = None
    limit: float | None = None
    more_is_better: bool = False

    @property
    def cells(self) -> tuple[str, str, str]:
        sign = "≥" if self.more_is_better else "≤"
        must, aim, limit = ("" if one is None else f"{one:,.10g}" for one in (self.must, self.aim, self.limit))
        return f"{sign} {must}", f"{sign} {aim}" if aim else "", limit

    def verdict(self, value: float) -> str:
        if self.aim is not None and self._holds(value, self.aim):
            return "aim"
        return "reached" if self._holds(value, self.must) else "missed"

    def _holds(self, value: float, bound: float) -> bool:
        return value >= bound if self.more_is_better else value <= bound


def first_and_newest(paths: Iterable[Path]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The first and the newest record of a kind; None for the first if there is only one."""
    records = in_order(paths)
    return (records[0] if len(records) > 1 else None), records[-1]


def in_order(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Records of a kind, by when they were made."""
    return sorted(map(read, paths), key=lambda one: one["environment"]["recorded_at"])


def host(record: Mapping[str, Any]) -> str:
    """The processor and the cores of a record's host, as far as it has them."""
    at = record["environment"]
    return f"{at.get('cpu', 'a processor that is not known')}, {at.get('cores', '?')} cores"


def before(first: Mapping[str, Any]) -> str:
    """What the column of the first record has, which may be of another host than the newest."""
    return f"*Before*: the first record, of {first['environment']['recorded_at'][:10]}, on {host(first)}"


def figure(value: float | None) -> str:
    """Three digits; empty if nothing was measured."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def span(values: Sequence[float]) -> str:
    """From the lowest to the highest."""
    ends = dict.fromkeys(figure(each(values)) for each in (min, max)) if values else {}
    return " to ".join(ends)
