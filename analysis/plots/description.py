"""What a plot shows, whatever draws it: panels that pure functions make out of measurements.

A backend only draws them: `figures.py` by matplotlib for files and reports, `service/dashboard/charts/` as SVG inside a
page. The browser's chart makes its lines itself, of fields that its reader chooses, by the rules that stand here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.measurement import Interval, Measurement
from analysis.plots.looks import Look
from analysis.roofline import ByteModel, Point, RoofKind, Roofs

Scale = Literal["linear", "log2", "log10"]

WIDE = 25.0  # times: values farther apart than this are seen on a logarithmic scale alone
FAR = 3.0  # times the top of an axis: a peak above that would only press the points together
MIN_LOG_SPAN = 10.0  # of a logarithmic axis, so that noise does not fill it


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Its label has the unit. `names` are those of the places 0, 1, 2, …; else places are numbers."""

    label: str
    scale: Scale = "linear"
    names: tuple[str, ...] = ()
    span: tuple[float, float] | None = None  # None: as far as what is drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line or one row of marks: places, values, and the band around it where its noise is known."""

    name: str
    look: Look
    points: tuple[tuple[float, float], ...]
    band: tuple[Interval, ...] = ()  # one for each point, or none
    is_overlay: bool = False  # of another's results, laid over these
    disturbed: tuple[tuple[float, float], ...] = ()  # those of the points that carry no conclusion
    is_joined: bool = True  # a line through products of several forms would say that one grows into the next


@dataclass(frozen=True, slots=True)
class Peak:
    """A peak of the units in use, which speeds are held against."""

    kind: RoofKind
    gflops: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines over numbers or names."""

    x: Axis
    y: Axis
    series: tuple[Series, ...]
    title: str = ""
    level: float | None = None  # of what values are held against
    peaks: tuple[Peak, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Values of a single size: a row for each series, which has one point."""

    title: str
    x: Axis
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One product's time, cut into the parts of `Bars`."""

    name: str
    short_name: str  # without what is usual, for a picture that has little room
    ms: tuple[float, ...]
    shares: tuple[float, ...]  # 0 to 1

    @property
    def total_ms(self) -> float:
        return sum(self.ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    parts: tuple[str, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """GFLOPS, and their share of the fastest config's at that size, 0 to 1."""

    gflops: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Configs, from top to bottom, by sizes. A cell that was not measured is None."""

    label: str
    title: str
    parameters: str  # in which the configs differ
    sizes: tuple[float, ...]
    configs: tuple[str, ...]
    cells: tuple[tuple[Cell | None, ...], ...]
    measured: tuple[Measurement, ...]  # one for each config, for what the compiler and the device say of it


@dataclass(frozen=True, slots=True)
class NamedRoofs:
    """Roofs with the names of all units that have them."""

    units: str
    roofs: Roofs

    @property
    def name(self) -> str:
        return f"{self.units}, {self.roofs.kind}"

    def corners(self, span: tuple[float, float]) -> tuple[tuple[float, float], ...]:
        """Of the roof over these intensities: GFLOPS along the slope of memory, from the ridge on level."""
        ridge, memory, gflops = self.roofs.ridge, self.roofs.memory_gb_s, self.roofs.gflops
        assert ridge is not None and memory is not None and gflops is not None
        return (span[0], span[0] * memory), (ridge, gflops), (max(span[1], ridge), gflops)


@dataclass(frozen=True, slots=True)
class Placed:
    """A measurement under its roofs: a point for each byte model that knows its bytes."""

    name: str
    look: Look
    roofs: Roofs
    at: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    x: Axis
    y: Axis
    models: tuple[ByteModel, ...]
    placed: tuple[Placed, ...]
    roofs: tuple[NamedRoofs, ...]
    peaks: tuple[Peak, ...]


Panel = Chart | Rows | Bars | Grid | Roofline


def is_wide(values: Sequence[float]) -> bool:
    """Whether values are so far apart that only a logarithmic axis shows them all."""
    return bool(values) and min(values) > 0 and max(values) / min(values) > WIDE


def number(value: float) -> str:
    """To read, not to compute with: 70 123, 0.05, 2.1e-07."""
    if value != 0 and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.2g}"
    return f"{value:,.0f}".replace(",", "\u202f") if abs(value) >= 1000 else f"{value:.4g}"
