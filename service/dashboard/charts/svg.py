"""Charts as inline SVG: colours are classes of style.css, so that they follow the page's light or dark mode. Marks can
be focused by keyboard and have their figures as text; `tips.js` shows this text as a tooltip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, cos, floor, log10, pi, sin
from types import MappingProxyType

from markupsafe import Markup

from analysis.plots.description import number
from analysis.plots.looks import Look, looks
from kernels.catalog import KERNEL_NAMES

DASHES = ("", "6 2", "2.5 2", "8 2 2 2")
LETTER = 7.6  # width of a letter or digit at 12 px, about
Scale = Callable[[float], float]


def _round(corners: int, rotation: float) -> str:
    """A regular polygon of radius 1; y points down."""
    angles = (rotation + 2 * pi * corner / corners for corner in range(corners))
    return "M" + "L".join(f"{cos(angle):.3f} {sin(angle):.3f}" for angle in angles) + "Z"


# Outlines around 0, of radius 1 or so. The browser's charts draw the same.
MARKS: tuple[str, ...] = (
    "M1 0A1 1 0 1 1 -1 0A1 1 0 1 1 1 0Z",
    _round(4, pi / 4),
    _round(3, -pi / 2),
    _round(4, 0),
    _round(3, pi / 2),
    "M-.35 -1H.35V-.35H1V.35H.35V1H-.35V.35H-1V-.35H-.35Z",
    "M0 -.5L.5 -1L1 -.5L.5 0L1 .5L.5 1L0 .5L-.5 1L-1 .5L-.5 0L-1 -.5L-.5 -1Z",
    _round(3, pi),
    _round(3, 0),
    _round(5, -pi / 2),
    _round(6, 0),
)


@dataclass(frozen=True, slots=True)
class Style:
    """The style of a curve: colour class (c0 to c6 of style.css, or ink), dashes, outline of its marks."""

    hue: str
    dash: str
    mark: str


def style_of(look: Look) -> Style:
    return Style("ink" if look.hue is None else f"c{look.hue}", DASHES[look.dash], MARKS[look.mark])


# A kernel looks the same in every chart.
KERNEL_STYLES: Mapping[str, Style] = MappingProxyType(
    {name: style_of(look) for name, look in looks((name, name) for name in KERNEL_NAMES).items()}
)


@dataclass(slots=True)
class Drawing:
    """A drawing: shapes in the order in which they are drawn. Lengths are pixels at full size."""

    width: float
    height: float
    title: str
    shapes: list[str] = field(default_factory=list)

    def rectangle(self, kind: str, x: float, y: float, width: float, height: float, *, opacity: float = 1.0) -> None:
        faint = f' opacity="{opacity:.2f}"' if opacity < 1 else ""
        self.shapes.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"{faint}/>'
        )

    def line(self, kind: str, points: Sequence[tuple[float, float]], *, dash: str = "") -> None:
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.shapes.append(f'<path class="line {kind}" d="{path}"{dashed}/>')

    def mark(self, style: Style, x: float, y: float, *, radius: float = 5, hollow: bool = False) -> None:
        fill = "hollow" if hollow else "full"
        place = f'transform="translate({x:.1f} {y:.1f}) scale({radius:g})"'
        self.shapes.append(f'<path class="mark {fill} {style.hue}" d="{style.mark}" {place}/>')

    def text(self, x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> None:
        self.shapes.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def begin(self, tip: str) -> None:
        """Begins a group of shapes that shows this tooltip when it is hovered or focused."""
        label = escape(tip)
        self.shapes.append(f'<g class="tip" tabindex="0" role="img" aria-label="{label}" data-tip="{label}">')

    def end(self) -> None:
        self.shapes.append("</g>")

    def svg(self) -> Markup:
        """The SVG, which scales down with the available width but never up."""
        size = f'width="{self.width:.0f}" height="{self.height:.0f}" viewBox="0 0 {self.width:.0f} {self.height:.0f}"'
        head = f'<svg class="drawn" {size} role="group" aria-label="{escape(self.title)}">'
        return Markup("\n".join((head, *self.shapes, "</svg>")))  # every word in it is escaped above


def swatch(style: Style) -> Markup:
    """A curve's mark alone, for a legend."""
    picture = Drawing(14, 14, "")
    picture.mark(style, 7, 7)
    return Markup(f'<svg class="drawn" width="14" height="14" aria-hidden="true">{picture.shapes[0]}</svg>')


def linear(lo: float, hi: float, start: float, end: float) -> Scale:
    return lambda value: start + (value - lo) / (hi - lo) * (end - start)


def logarithmic(lo: float, hi: float, start: float, end: float) -> Scale:
    low, high = log10(lo), log10(hi)
    return lambda value: start + (log10(value) - low) / (high - low) * (end - start)


def decades(lo: float, hi: float) -> list[float]:
    """Powers of ten from `lo` to `hi`, with 2 and 5 in between if there are few."""
    between = (1.0, 2.0, 5.0) if hi / lo < 1000 else (1.0,)
    found = (10.0**power * part for power in range(floor(log10(lo)), ceil(log10(hi)) + 1) for part in between)
    return [value for value in found if lo <= value <= hi]


def even_steps(lo: float, hi: float, max_steps: int = 6) -> list[float]:
    """Ticks at multiples of 1, 2 or 5 times a power of ten, about `max_steps` at most; for a single value only that
    value.
    """
    if lo == hi:
        return [lo]
    power = 10.0 ** floor(log10((hi - lo) / max_steps))
    step = next(power * part for part in (1, 2, 5, 10) if power * part * max_steps >= hi - lo)
    return [round(step * count, 12) for count in range(ceil(lo / step), floor(hi / step) + 1)]


def powers_of_two(lo: float, hi: float, max_steps: int = 12) -> list[float]:
    powers = [2.0**power for power in range(-10, 40) if lo <= 2.0**power <= hi]
    return powers[:: ceil(len(powers) / max_steps)] if powers else []


def format_number(value: float) -> str:
    """The number to four significant digits."""
    return number(float(f"{value:.4g}"))
