"""Throughput, queue age, utilisation and power over a chosen time, as lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from jobs.errors import InvalidRequest
from jobs.fleet.history import SERIES, Sample, Series
from service.dashboard.words import duration, figure

WIDTH, HEIGHT, MARGIN = 600.0, 90.0, 5.0  # of a drawing, in its own units
DASH = 6.0
GAP_STEPS = 3  # this many steps without a sample interrupt a line
WORDS = {"5m": "5 minutes", "1h": "hour", "24h": "24 hours"}


@dataclass(frozen=True, slots=True)
class Trend:
    """One quantity. `lines` are SVG polylines, interrupted where values are unknown; `bad` are those of a second
    quantity.
    """

    name: str
    now: str  # in words
    highest: str
    lines: tuple[str, ...]
    bad: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, slots=True)
class Row:
    """A step, for the table."""

    at: datetime
    done_per_s: float | None
    failed_per_s: float | None
    oldest_s: float | None
    utilisation: float | None
    power_w: float | None


def series_of(name: str) -> Series:
    """Raises InvalidRequest."""
    if name not in SERIES:
        raise InvalidRequest(f"There is no time {name!a} to look back; there are {', '.join(SERIES)}.", field="over")
    return SERIES[name]


def rows_of(samples: Sequence[Sample], series: Series) -> Sequence[Row]:
    """A row per step. Rates are computed between two samples, so the first sample gives no row."""
    return [_row(before, sample, series) for before, sample in pairwise(samples)]


def _row(before: Sample, sample: Sample, series: Series) -> Row:
    seconds = (sample.at - before.at).total_seconds()
    done = failed = None
    if 0 < seconds <= GAP_STEPS * series.step_s:
        done = _rate(before.succeeded, sample.succeeded, seconds)
        failed = _rate(before.failed, sample.failed, seconds)
    share = None if not sample.workers or sample.busy is None else sample.busy / sample.workers
    return Row(sample.at, done, failed, sample.oldest_s, share, sample.power_w)


def _rate(before: float | None, after: float | None, seconds: float) -> float | None:
    """The rate; None if it is unknown, or the counter was reset."""
    return None if before is None or after is None or after < before else (after - before) / seconds


def _rate_words(value: float) -> str:
    if 0 < value < 0.5:
        return f"{figure(60 * value, 2)} a minute"
    return f"{figure(value, 3)} a second"


def trends_of(rows: Sequence[Row], series: Series, until: datetime) -> Sequence[Trend]:
    """The trends of all quantities with known values."""
    return list(_trends(rows, series, until))


def _trends(rows: Sequence[Row], series: Series, until: datetime) -> Iterator[Trend]:
    def one(
        name: str,
        read: Callable[[Row], float | None],
        words: Callable[[float], str],
        meaning: str,
        *,
        min_top: float,
        bad: Callable[[Row], float | None] | None = None,
    ) -> Iterator[Trend]:
        known = [value for row in rows if (value := read(row)) is not None]
        if not known:
            return
        seconds = [value for row in rows if bad and (value := bad(row)) is not None]
        top = max([*known, *seconds, min_top])
        lines, others = _lines(rows, read, series, until, top), _lines(rows, bad, series, until, top) if bad else ()
        yield Trend(name, words(known[-1]), words(max(known)), lines, others if any(seconds) else (), meaning)

    yield from one(
        "Throughput",
        lambda row: row.done_per_s,
        _rate_words,
        "jobs that succeeded; second line: failed",
        min_top=1 / series.step_s,
        bad=lambda row: row.failed_per_s,
    )
    yield from one("Queue age", lambda row: row.oldest_s, duration, "longest wait of any job", min_top=1.0)
    busy = "share of live workers with a job, sampled every second"
    yield from one("Utilisation", lambda row: row.utilisation, lambda v: f"{100 * v:.0f} %", busy, min_top=1.0)
    power = "all devices that tell it"
    yield from one("Power", lambda row: row.power_w, lambda v: f"{figure(v)} W", power, min_top=1.0)


def _lines(
    rows: Sequence[Row], read: Callable[[Row], float | None], series: Series, until: datetime, top: float
) -> tuple[str, ...]:
    lines: list[list[str]] = [[]]
    last: datetime | None = None
    for row in rows:
        value = read(row)
        if value is None or (last and (row.at - last).total_seconds() > GAP_STEPS * series.step_s):
            lines.append([])
        if value is None:
            continue
        last = row.at
        x = WIDTH * (1 - (until - row.at).total_seconds() / series.window_s)
        if x >= 0:
            lines[-1].append(f"{x:.1f},{HEIGHT - MARGIN - value / top * (HEIGHT - 2 * MARGIN):.1f}")
    return tuple(" ".join(points if len(points) > 1 else _dash(points[0])) for points in lines if points)


def _dash(point: str) -> Sequence[str]:
    """A short dash for a single point, which would not be visible as a line."""
    x, y = point.split(",")
    return f"{float(x) - DASH:.1f},{y}", point
