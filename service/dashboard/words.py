"""Formats values for pages: figures with units, times, states in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from jobs.benchmarks.spec import BenchmarkSpec, KernelItem
from jobs.formats.elements import shape_text
from service.bodies.sizes import in_units

UNKNOWN = "–"
_STEPS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_AGES = ((86_400, "day"), (3600, "h"), (60, "min"))


def figure(value: float | None, digits: int = 4) -> str:
    """A number with `digits` significant digits and grouped thousands: 50587.3 is `50 587`."""
    if value is None:
        return UNKNOWN
    if value == 0 or not abs(value) < float("inf"):
        return f"{value:g}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.{digits}g}" if abs(value) >= 1e-3 else f"{value:.1e}"


def duration(seconds: float | None) -> str:
    """A duration in its two largest units: 3725 is `1 h 2 min`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    left, parts = round(seconds), []
    for size, unit in _STEPS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def elapsed(start: datetime | None, end: datetime | None = None) -> str:
    """The duration from one instant to another, by default to now."""
    if start is None:
        return UNKNOWN
    return duration(max(0.0, ((end or datetime.now(UTC)) - start).total_seconds()))


def age(at: datetime | None) -> str:
    """How long ago an instant was: `just now`, `21 min ago`, `3 days ago`."""
    if at is None:
        return UNKNOWN
    seconds = max(0.0, (datetime.now(UTC) - at).total_seconds())
    if seconds < 5:
        return "just now"
    if seconds < 60:
        return f"{seconds:.0f} s ago"
    for size_s, unit in _AGES:
        if seconds >= size_s:
            count = int(seconds // size_s)
            plural = "s" if unit == "day" and count > 1 else ""
            return f"{count} {unit}{plural} ago"
    return instant(at)


def instant(at: datetime | None) -> str:
    return UNKNOWN if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def speed(gflops: float | None) -> str:
    """The speed in GFLOPS; for a product too small to have a meaningful speed, a note that says so."""
    return "< 0.001" if gflops is not None and 0 < gflops < 1e-3 else figure(gflops)


def size(count: float | None) -> str:
    """A number of bytes in the largest unit that fits: 1572864 is `1.5 MiB`."""
    return UNKNOWN if count is None else in_units(count)


def percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def config(parameters: Mapping[str, Any] | None) -> str:
    """`block_m 64, block_n 64`."""
    return ", ".join(f"{name} {value}" for name, value in (parameters or {}).items()) or UNKNOWN


def shape(extents: tuple[int, ...] | None) -> str:
    return shape_text(extents) if extents else UNKNOWN


def benchmark_title(spec: BenchmarkSpec) -> str:
    """What a list calls a benchmark: its own title, its preset's name, or what it measures."""
    if spec.title or spec.preset:
        return spec.title or spec.preset or ""
    if spec.kind == "ceilings":
        return "ceilings"
    kernels = [spec.kernels] if isinstance(spec.kernels, str) else [_name_of(each) for each in spec.kernels]
    more = f" and {len(kernels) - 2} more" if len(kernels) > 2 else ""
    return f"{spec.kind} of {', '.join(kernels[:2])}{more}"


def _name_of(item: KernelItem) -> str:
    return item if isinstance(item, str) else item.kernel


_FORMATS = (figure, duration, elapsed, age, instant, speed, size, percent, config, shape, benchmark_title)
FILTERS: dict[str, Callable[..., str]] = {each.__name__: each for each in _FORMATS}
