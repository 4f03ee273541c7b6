"""Line charts of a device's clock, power and temperature over a benchmark, as recorded with its measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobs.benchmarks.records import CaseRecord, DeviceState
from jobs.models import JobEvent

WIDTH, HEIGHT = 600.0, 60.0  # of a strip, in its own units
MARGIN = 4.0
MAX_POINTS = 400


@dataclass(frozen=True, slots=True)
class Strip:
    """One quantity: a polyline, and the places where the clock was held down."""

    name: str
    unit: str
    low: float
    high: float
    points: str  # as SVG has them
    marks: Sequence[tuple[float, str]]  # place, why


QUANTITIES: tuple[tuple[str, str, Callable[[DeviceState], float | None]], ...] = (
    ("SM clock", "MHz", lambda state: state.sm_clock_mhz),
    ("Power", "W", lambda state: state.power_w_mean),
    ("Temperature", "°C", lambda state: state.temp_c_max),
)


def in_order(records: Sequence[CaseRecord], events: Sequence[JobEvent]) -> Sequence[CaseRecord]:
    """The measurements in the order they were taken, as far as events still record it; the others come first, by
    rounds.
    """
    found = [event.data["found"] for event in events if "found" in event.data]
    place = {(news.get("round"), news.get("case")): number for number, news in enumerate(found)}
    return sorted(records, key=lambda record: place.get((record.round, record.case), -1))


def strips_of(records: Sequence[CaseRecord]) -> Sequence[Strip]:
    """A strip for each quantity that the device reports; none for fewer than two measurements."""
    step = max(1, -(-len(records) // MAX_POINTS))
    shown = [record for record in records[::step] if record.status == "ok"]
    strips = (_strip(name, unit, shown, [read(record.state) for record in shown]) for name, unit, read in QUANTITIES)
    return [strip for strip in strips if strip is not None]


def _strip(name: str, unit: str, records: Sequence[CaseRecord], values: Sequence[float | None]) -> Strip | None:
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    low, high = min(known), max(known)
    places = [WIDTH * number / (len(values) - 1) for number in range(len(values))]
    points = " ".join(
        f"{x:.1f},{_height(value, low, high):.1f}" for x, value in zip(places, values, strict=True) if value is not None
    )
    marks = [(round(x, 1), why) for x, record in zip(places, records, strict=True) if (why := held_down(record))]
    return Strip(name, unit, low, high, points, marks)


def _height(value: float, low: float, high: float) -> float:
    share = (value - low) / (high - low) if high > low else 0.5
    return HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN)


def held_down(record: CaseRecord) -> str:
    """What held the clock down while the case was measured; empty if nothing did."""
    reasons = [name.replace("_", " ") for name, ns in record.state.event_reason_ns.items() if ns > 0]
    flags = {"throttled": record.throttled, "power limited": record.power_limited}
    return ", ".join(reasons or [words for words, holds in flags.items() if holds])
