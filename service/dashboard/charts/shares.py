"""A bar chart of kernels and the library: a group for each product, the fastest first, with a line at the library's
value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from service.dashboard.charts.svg import LETTER, Drawing, Scale, Style, even_steps, format_number, linear

LINE, HEAD, TOP, FOOT, RIGHT = 22, 26, 8, 40, 130  # RIGHT: space for the text after a bar
WIDTH = 420  # of the scale
LONGEST_NAME = 30


@dataclass(frozen=True, slots=True)
class ShareBar:
    """A kernel's bar: its value with the ends of its interval, the text after the bar, and its tooltip."""

    name: str
    style: Style
    value: float
    lo: float | None
    hi: float | None
    words: str
    tip: str
    is_clean: bool = True


@dataclass(frozen=True, slots=True)
class ShareGroup:
    """A product's bars; the title is empty if there is only one product."""

    title: str
    bars: Sequence[ShareBar]


def draw(groups: Sequence[ShareGroup], axis: str, *, level: float | None) -> Markup:
    """Draws the chart. `axis`: label of the measured quantity; `level`: the library's value on the same scale."""
    bars = [bar for group in groups for bar in group.bars]
    left = 12 + LETTER * max(len(_short(bar.name)) for bar in bars)
    top = 1.04 * max([*(bar.hi or bar.value for bar in bars), level or 0.0])
    x = linear(0.0, top, left, left + WIDTH)
    heads = HEAD * sum(1 for group in groups if group.title)
    height = TOP + heads + LINE * len(bars) + FOOT
    picture = Drawing(left + WIDTH + RIGHT, height, f"{axis}, kernel by kernel.")
    _scale(picture, x, top, height - FOOT, axis)
    y, ends = float(TOP), []
    for group in groups:
        if group.title:
            picture.text(0, y + HEAD - 9, group.title, kind="strong")
            y += HEAD
        for bar in group.bars:
            _bar(picture, bar, x, y)
            ends.append((x(max(bar.value, bar.hi or 0.0)) + 6, y + LINE / 2 + 4, bar.words))
            y += LINE
    if level is not None:
        picture.line("roof", [(x(level), TOP), (x(level), height - FOOT)])
    for behind, middle, words in ends:
        is_struck = level is not None and behind < x(level) + 4 <= behind + LETTER * len(words)
        picture.text(x(level) + 6 if level is not None and is_struck else behind, middle, words, kind="faint halo")
    return picture.svg()


def _scale(picture: Drawing, x: Scale, top: float, foot: float, axis: str) -> None:
    for tick in even_steps(0.0, top, 5):
        picture.line("grid", [(x(tick), TOP), (x(tick), foot)])
        picture.text(x(tick), foot + 15, format_number(tick), anchor="middle", kind="faint")
    picture.text(x(0.0), foot + 32, axis)


def _bar(picture: Drawing, bar: ShareBar, x: Scale, y: float) -> None:
    middle = y + LINE / 2
    picture.begin(bar.tip)
    picture.text(x(0.0) - 8, middle + 4, _short(bar.name), anchor="end")
    kind = f"piece {bar.style.hue}" if bar.is_clean else f"outline {bar.style.hue}"
    picture.rectangle(kind, x(0.0), y + 4, max(1.5, x(bar.value) - x(0.0)), LINE - 8)
    if bar.lo is not None and bar.hi is not None:
        picture.line("whisker", [(x(bar.lo), middle), (x(bar.hi), middle)])
    picture.end()


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
