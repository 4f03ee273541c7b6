"""The roofline as a chart: kernels under the roofs of their device, by the bytes that one chooses to count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from analysis.measurement import Measurement
from analysis.plots.device import roofed
from analysis.plots.style import number
from analysis.roofline import ByteModel, Point, Roofs, measured_roofs, point, theoretical_roofs, units_of
from service.dashboard.charts.svg import (
    Drawing,
    Scale,
    decades,
    format_number,
    logarithmic,
    powers_of_two,
    styles,
    swatch,
)
from service.dashboard.charts.tables import size_of
from service.dashboard.words import percent

WIDTH, HEIGHT, LINE = 880, 480, 13
LEFT, RIGHT, TOP, BOTTOM = 70, 14, 14, 48
MODELS: dict[ByteModel, str] = {
    "compulsory": "each matrix moved once",
    "tile": "what the tiles read",
    "measured": "what counters saw",
}
SIDES = {"memory": "memory is the limit", "compute": "compute is the limit"}
ROOF_DASHES = {"theoretical": "7 4", "measured": ""}


@dataclass(frozen=True, slots=True)
class PlacedPoint:
    """A measurement where it stands, under the measured roofs where they are known, else under the stated ones."""

    at: Point
    roofs: Roofs


def placed(found: Sequence[Measurement], model: ByteModel) -> list[PlacedPoint]:
    """The largest size of each curve, of those whose bytes are known by this model."""
    pairs = ((one, _best_roofs(one)) for one in roofed(found))
    points = ((point(one, roofs, model), roofs) for one, roofs in pairs)
    return [PlacedPoint(at, roofs) for at, roofs in points if at is not None]


def _both(one: Measurement) -> tuple[Roofs, Roofs]:
    units = units_of(one)
    return theoretical_roofs(one.device, units), measured_roofs(one.device, units)


def _best_roofs(one: Measurement) -> Roofs:
    stated, measured = _both(one)
    return measured if measured.ridge else stated


def draw(found: Sequence[Measurement], model: ByteModel) -> Markup | None:
    """None where nothing can be placed: counters are rarely read."""
    points = placed(found, model)
    if not points:
        return None
    roofs = _roofs([one.at.measurement for one in points])
    span, rise = _spans(points, roofs)
    x = logarithmic(*span, LEFT, WIDTH - RIGHT)
    y = logarithmic(*rise, HEIGHT - BOTTOM, TOP)
    picture = Drawing(WIDTH, HEIGHT, f"Roofline: GFLOPS by FLOP per byte, {MODELS[model]}.")
    _axes(picture, x, y, span, rise)
    for names, one in roofs:
        _roof(picture, names, one, x, y, span)
    _roof_words(picture, roofs, x, y)
    _points(picture, points, x, y)
    return picture.svg()


def _roofs(found: Sequence[Measurement]) -> list[tuple[str, Roofs]]:
    """Of every type's units in use, equal ones once under all their names."""
    known: dict[Roofs, list[str]] = {}
    for one in found:
        for roofs in _both(one):
            if roofs.ridge is not None and (units := units_of(one)) and units not in known.setdefault(roofs, []):
                known[roofs].append(units)
    return [(", ".join(names), roofs) for roofs, names in known.items()]


def _spans(
    points: Sequence[PlacedPoint], roofs: Sequence[tuple[str, Roofs]]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """So that every point and every ridge is seen."""
    places = [one.at.intensity for one in points] + [roof.ridge or 1.0 for _, roof in roofs]
    speeds = [one.at.measurement.gflops or 1.0 for one in points] + [roof.gflops or 1.0 for _, roof in roofs]
    span = (min(places) / 4, max(places) * 3)
    foot = min(roof.memory_gb_s or 1.0 for _, roof in roofs) * span[0]
    return span, (min([*speeds, 2 * foot]) / 2, max(speeds) * 2.4)


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


def _roof(picture: Drawing, names: str, roofs: Roofs, x: Scale, y: Scale, span: tuple[float, float]) -> None:
    ridge, gflops, memory = roofs.ridge, roofs.gflops, roofs.memory_gb_s
    assert ridge is not None and gflops is not None and memory is not None
    speeds = f"{format_number(gflops)} GFLOPS, {format_number(memory)} GB/s"
    picture.begin(f"{names}, {roofs.kind}: {speeds}; the ridge is at {format_number(ridge)} FLOP per byte")
    corners = [(span[0], span[0] * memory), (ridge, gflops), (span[1], gflops)]
    picture.line("roof", [(x(at), y(speed)) for at, speed in corners], dash=ROOF_DASHES[roofs.kind])
    picture.rectangle("ridge", x(ridge) - 3, y(gflops) - 3, 6, 6)
    picture.end()


def _roof_words(picture: Drawing, roofs: Sequence[tuple[str, Roofs]], x: Scale, y: Scale) -> None:
    """Left of each ridge, where nothing else stands; roofs may be so close that their words must give way."""
    free = 0.0
    slope = (x(10.0) - x(1.0)) / (y(1.0) - y(10.0))  # of the roof of memory: pixels along for a pixel up
    for names, roof in sorted(roofs, key=lambda pair: -(pair[1].gflops or 0)):
        level = max(free, y(roof.gflops or 1.0) + 4)
        end = x(roof.ridge or 1.0) - 12 - slope * (level - y(roof.gflops or 1.0))
        picture.text(end, level, f"{names}, {roof.kind}", anchor="end", kind="faint")
        free = level + LINE


def _points(picture: Drawing, points: Sequence[PlacedPoint], x: Scale, y: Scale) -> None:
    looks = styles([one.at.measurement.label for one in points])
    for one in points:
        measurement = one.at.measurement
        picture.begin(words_of(one))
        picture.mark(looks[measurement.label], x(one.at.intensity), y(measurement.gflops or 1.0), radius=6)
        picture.end()


def words_of(one: PlacedPoint) -> str:
    """What a point says: the case, its figures, its part of the roof, and which side of the ridge limits it."""
    at, measurement = one.at, one.at.measurement
    name = f"{measurement.label}, {measurement.dtype}, {size_of(measurement.m, measurement.n, measurement.k)}"
    parts = [name, f"{format_number(measurement.gflops or 0)} GFLOPS at {format_number(at.intensity)} FLOP per byte"]
    if at.attainable:
        parts.append(f"{percent(at.fraction)} of the {one.roofs.kind} roof of {format_number(at.attainable)}")
    if at.limit:
        parts.append(SIDES[at.limit])
    return "; ".join([*parts, *([at.implausible] if at.implausible else [])])


def legend(found: Sequence[Measurement], model: ByteModel) -> list[tuple[str, Markup]]:
    """Labels of the marks in the chart, once each."""
    labels = dict.fromkeys(one.at.measurement.label for one in placed(found, model))
    return [(label, swatch(style)) for label, style in styles(list(labels)).items()]
