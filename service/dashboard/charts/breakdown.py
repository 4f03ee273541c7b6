"""Where the time goes, as stacked bars: copy in, kernel, copy out."""

from __future__ import annotations

from typing import Literal

from markupsafe import Markup

from analysis.plots.description import Bar, Bars
from service.dashboard.charts.svg import LETTER, Drawing, even_steps, format_number, linear
from service.dashboard.words import percent

Unit = Literal["share", "ms"]
HUES = ("c4", "c0", "c1")  # of the parts
WIDTH, ROW, TOP, FOOT, RIGHT = 760, 24, 30, 40, 84
TICKS = 5


def draw(bars: Bars, unit: Unit) -> Markup:
    """A bar for each product: shares of its time, or milliseconds on one scale."""
    count = len(bars.bars)
    left = 12 + LETTER * max(len(bar.name) for bar in bars.bars)
    longest = 1.0 if unit == "share" else max(bar.total_ms for bar in bars.bars)
    x = linear(0, longest, left, WIDTH - RIGHT)
    picture = Drawing(
        WIDTH, TOP + ROW * count + FOOT, "Copy in, kernel and copy out of each product, one after the other."
    )
    _key(picture, bars.parts, left)
    foot = TOP + ROW * count
    for value in even_steps(0, longest, TICKS):
        picture.line("grid", [(x(value), TOP), (x(value), foot)])
        label = f"{100 * value:.0f} %" if unit == "share" else format_number(value)
        picture.text(x(value), foot + 16, label, anchor="middle", kind="faint")
    if unit == "ms":
        picture.text((left + WIDTH - RIGHT) / 2, foot + 33, "ms", anchor="middle")
    for row, bar in enumerate(bars.bars):
        _bar(picture, bars.parts, bar, TOP + ROW * row, unit, (left, longest, WIDTH - RIGHT - left))
    return picture.svg()


def _key(picture: Drawing, parts: tuple[str, ...], left: float) -> None:
    for place, (name, hue) in enumerate(zip(parts, HUES, strict=True)):
        picture.rectangle(f"piece {hue}", left + 110 * place, 8, 12, 12)
        picture.text(left + 110 * place + 17, 18, name)


def _bar(
    picture: Drawing, parts: tuple[str, ...], bar: Bar, top: float, unit: Unit, room: tuple[float, float, float]
) -> None:
    left, longest, width = room
    picture.text(left - 8, top + 16, bar.name, anchor="end")
    start = left
    for part, hue, ms, share in zip(parts, HUES, bar.ms, bar.shares, strict=True):
        length = (share if unit == "share" else ms) / longest * width
        picture.begin(f"{bar.name}: {part} {format_number(ms)} ms, {percent(share)}")
        picture.rectangle(f"piece {hue}", start, top + 3, length, ROW - 6)
        picture.end()
        start += length
    picture.text(start + 6, top + 16, f"{format_number(bar.total_ms)} ms")
