"""What a plot shows, independent of what draws it: panels that pure functions make from measurements.

A backend only draws them: `figures.py` with matplotlib for files and reports, `service/dashboard/charts/` as SVG within
a page. The browser's chart makes its lines itself, from fields that its reader chooses, by the rules in this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.measurement import Interval, Measurement
from analysis.plots.looks import Look
from analysis.roofline import ByteModel, Point, RoofKind, Roofs

Scale = Literal["linear", "log2", "log10"]

WIDE = 25.0  # times: values farther apart than this need a logarithmic scale
FAR = 3.0  # times the top of an axis: drawing a higher peak would squeeze the points
MIN_LOG_SPAN = 10.0  # of a logarithmic axis, so that noise does not fill it


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The label includes the unit. `names` belong to the positions 0, 1, 2, …; without names, positions are numbers."""

    label: str
    scale: Scale = "linear"
    names: tuple[str, ...] = ()
    span: tuple[float, float] | None = None  # None: the extent of what is drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line or one row of marks: positions, values, and the band around them if their noise is known."""

    name: str
    look: Look
    points: tuple[tuple[float, float], ...]
    band: tuple[Interval, ...] = ()  # one for each point, or none
    disturbed: tuple[tuple[float, float], ...] = ()  # the points that support no conclusion
    is_joined: bool = True  # False for products of several aspect ratios: a line would suggest that only size differs


@dataclass(frozen=True, slots=True)
class Peak:
    """A peak of the units in use, which speeds are compared with."""

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
    level: float | None = None  # that values are compared with
    peaks: tuple[Peak, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Values of a single size: a row for each series, with one point."""

    title: str
    x: Axis
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One product's time, divided into the parts of `Bars`."""

    name: str
    short_name: str  # without the usual parts, for a picture with little room
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
    parameters: str  # those in which the configs differ
    sizes: tuple[str, ...]
    configs: tuple[str, ...]
    cells: tuple[tuple[Cell | None, ...], ...]
    measured: tuple[Measurement, ...]  # one for each config, for its registers, spills and occupancy


@dataclass(frozen=True, slots=True)
class NamedRoofs:
    """Roofs with the names of all units that share them."""

    units: str
    roofs: Roofs

    @property
    def name(self) -> str:
        return f"{self.units}, {self.roofs.kind}"

    def corners(self, span: tuple[float, float]) -> tuple[tuple[float, float], ...]:
        """Corners of the roof over these intensities: GFLOPS along the slope of memory, and level from the ridge on."""
        ridge, memory, gflops = self.roofs.ridge, self.roofs.memory_gb_s, self.roofs.gflops
        assert ridge is not None and memory is not None and gflops is not None
        return (span[0], span[0] * memory), (ridge, gflops), (max(span[1], ridge), gflops)


@dataclass(frozen=True, slots=True)
class Placed:
    """A measurement under its roofs: a point for each byte model whose bytes are known."""

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
    """A number to read, not to compute with: 70 123, 0.05, 2.1e-07."""
    if value != 0 and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.2g}"
    return f"{value:,.0f}".replace(",", "\u202f") if abs(value) >= 1000 else f"{value:.4g}"
