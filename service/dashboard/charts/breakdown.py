"""Where the time goes, as stacked bars: copy in, kernel, copy out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from markupsafe import Markup

from analysis.breakdown import Breakdown
from analysis.measurement import Measurement
from analysis.plots.device import split_times
from service.dashboard.charts.svg import LETTER, Drawing, even_steps, format_number, linear
from service.dashboard.charts.tables import size_of
from service.dashboard.words import percent

Bars = Literal["share", "ms"]
PARTS = (("copy in", "c4"), ("kernel", "c0"), ("copy out", "c1"))
WIDTH, ROW, TOP, FOOT, RIGHT = 760, 24, 30, 40, 84
TICKS = 5


def draw(found: Sequence[Measurement], bars: Bars) -> Markup:
    """A bar for each product: shares of its time, or milliseconds on one scale."""
    split = split_times(found)
    names = [name_of(one) for one in split]
    left = 12 + LETTER * max(map(len, names))
    longest = 1.0 if bars == "share" else max(one.total_ms for one in split)
    x = linear(0, longest, left, WIDTH - RIGHT)
    picture = Drawing(
        WIDTH, TOP + ROW * len(split) + FOOT, "Copy in, kernel and copy out of each product, one after the other."
    )
    _key(picture, left)
    foot = TOP + ROW * len(split)
    for value in even_steps(0, longest, TICKS):
        picture.line("grid", [(x(value), TOP), (x(value), foot)])
        label = f"{100 * value:.0f} %" if bars == "share" else format_number(value)
        picture.text(x(value), foot + 16, label, anchor="middle", kind="faint")
    if bars == "ms":
        picture.text((left + WIDTH - RIGHT) / 2, foot + 33, "ms", anchor="middle")
    for row, (name, one) in enumerate(zip(names, split, strict=True)):
        _bar(picture, name, one, TOP + ROW * row, bars, (left, longest, WIDTH - RIGHT - left))
    return picture.svg()


def name_of(one: Breakdown) -> str:
    measurement = one.measurement
    return f"{measurement.label}, {measurement.dtype}, {size_of(measurement.m, measurement.n, measurement.k)}"


def _key(picture: Drawing, left: float) -> None:
    for place, (name, hue) in enumerate(PARTS):
        picture.rectangle(f"piece {hue}", left + 110 * place, 8, 12, 12)
        picture.text(left + 110 * place + 17, 18, name)


def _bar(picture: Drawing, name: str, one: Breakdown, top: float, bars: Bars, room: tuple[float, float, float]) -> None:
    left, longest, width = room
    picture.text(left - 8, top + 16, name, anchor="end")
    start = left
    for (part, hue), ms, share in zip(PARTS, (one.h2d_ms, one.kernel_ms, one.d2h_ms), one.shares, strict=True):
        length = (share if bars == "share" else ms) / longest * width
        picture.begin(f"{name}: {part} {format_number(ms)} ms, {percent(share)}")
        picture.rectangle(f"piece {hue}", start, top + 3, length, ROW - 6)
        picture.end()
        start += length
    picture.text(start + 6, top + 16, f"{format_number(one.total_ms)} ms")
