"""The roofline as a chart: kernels under the roofs of their device, for a chosen way of counting bytes."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from analysis.plots.description import NamedRoofs, Placed, Roofline, number
from analysis.plots.device import name_of
from analysis.roofline import Bound, ByteModel, bound
from service.dashboard.charts.svg import (
    Drawing,
    Scale,
    decades,
    format_number,
    logarithmic,
    powers_of_two,
    style_of,
    swatch,
)
from service.dashboard.words import percent

WIDTH, HEIGHT, LINE = 880, 480, 13
LEFT, RIGHT, TOP, BOTTOM = 70, 14, 14, 48
MODELS: dict[ByteModel, str] = {
    "compulsory": "each matrix moved once",
    "tile": "what the tiles read",
    "measured": "what counters saw",
}
BOUNDS: dict[Bound, str] = {
    "memory": "memory is the limit",
    "compute": "compute is the limit",
    "tile traffic": "the traffic of its tiles is the limit",
    "neither roof": "neither roof is the limit, but latency, access pattern or instructions",
}
ROOF_DASHES = {"theoretical": "7 4", "measured": ""}


def draw(roofline: Roofline) -> Markup:
    """Draws the roofline by the first of its byte models."""
    span, rise = roofline.x.span, roofline.y.span
    assert span is not None and rise is not None
    x = logarithmic(*span, LEFT, WIDTH - RIGHT)
    y = logarithmic(*rise, HEIGHT - BOTTOM, TOP)
    picture = Drawing(WIDTH, HEIGHT, f"Roofline: GFLOPS by FLOP per byte, {MODELS[roofline.models[0]]}.")
    _axes(picture, x, y, span, rise)
    for named in roofline.roofs:
        _roof(picture, named, x, y, span)
    _roof_words(picture, roofline.roofs, x, y)
    for placed in roofline.placed:
        picture.begin(words_of(placed))
        at = placed.at[0]
        is_hollow = not at.measurement.condition.is_clean
        place = x(at.intensity), y(at.measurement.gflops or 1.0)
        picture.mark(style_of(placed.look), *place, radius=6, hollow=is_hollow)
        picture.end()
    return picture.svg()


def _axes(picture: Drawing, x: Scale, y: Scale, span: tuple[float, float], rise: tuple[float, float]) -> None:
    foot = HEIGHT - BOTTOM
    for tick in powers_of_two(*span):
        picture.line("grid", [(x(tick), TOP), (x(tick), foot)])
        picture.text(x(tick), foot + 16, number(tick), anchor="middle", kind="faint")
    for tick in decades(*rise):
        picture.line("grid", [(LEFT, y(tick)), (WIDTH - RIGHT, y(tick))])
        picture.text(LEFT - 6, y(tick) + 4, format_number(tick), anchor="end", kind="faint")
    picture.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "FLOP per byte", anchor="middle")
    picture.text(6, TOP - 2, "GFLOPS")


def _roof(picture: Drawing, named: NamedRoofs, x: Scale, y: Scale, span: tuple[float, float]) -> None:
    ridge, gflops, memory = named.roofs.ridge, named.roofs.gflops, named.roofs.memory_gb_s
    assert ridge is not None and gflops is not None and memory is not None
    speeds = f"{format_number(gflops)} GFLOPS, {format_number(memory)} GB/s"
    picture.begin(f"{named.name}: {speeds}; the ridge is at {format_number(ridge)} FLOP per byte")
    corners = [(x(at), y(speed)) for at, speed in named.corners(span)]
    picture.line("roof", corners, dash=ROOF_DASHES[named.roofs.kind])
    picture.rectangle("ridge", x(ridge) - 3, y(gflops) - 3, 6, 6)
    picture.end()


def _roof_words(picture: Drawing, roofs: Sequence[NamedRoofs], x: Scale, y: Scale) -> None:
    """Places the roofs' labels left of each ridge, where there is space; labels of roofs that are too close are
    moved.
    """
    free = 0.0
    slope = (x(10.0) - x(1.0)) / (y(1.0) - y(10.0))  # of the roof of memory: pixels along for a pixel up
    for named in sorted(roofs, key=lambda named: -(named.roofs.gflops or 0)):
        level = max(free, y(named.roofs.gflops or 1.0) + 4)
        end = x(named.roofs.ridge or 1.0) - 12 - slope * (level - y(named.roofs.gflops or 1.0))
        picture.text(end, level, named.name, anchor="end", kind="faint")
        free = level + LINE


def words_of(placed: Placed) -> str:
    """A point's tooltip: the case, its figures, its share of the roof, and which side of the ridge limits it."""
    at = placed.at[0]
    speed = f"{format_number(at.measurement.gflops or 0)} GFLOPS at {format_number(at.intensity)} FLOP per byte"
    parts = [name_of(at.measurement), speed]
    if at.attainable:
        parts.append(f"{percent(at.fraction)} of the {placed.roofs.kind} roof of {format_number(at.attainable)}")
    if (limit := bound(at.measurement, placed.roofs)) is not None:
        parts.append(BOUNDS[limit])
    if not at.measurement.condition.is_clean:
        parts.append(at.measurement.condition.kind)
    return "; ".join([*parts, *([at.implausible] if at.implausible else [])])


def legend(roofline: Roofline) -> list[tuple[str, Markup]]:
    """Labels of the marks in the chart, once each."""
    return [(name, swatch(style_of(look))) for name, look in {one.name: one.look for one in roofline.placed}.items()]
