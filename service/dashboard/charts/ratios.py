"""A chart of speed ratios with their intervals, of one or several runs against the same reference run."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from analysis.measurement import size_of
from analysis.plots.looks import look_of
from service.benchmarks.comparison import ComparedCase
from service.dashboard.charts.svg import (
    LETTER,
    Drawing,
    Scale,
    Style,
    even_steps,
    format_number,
    linear,
    logarithmic,
    style_of,
)
from service.dashboard.words import config

WIDTH, LINE, TOP, FOOT, RIGHT = 640, 20, 12, 40, 20  # WIDTH is the width of the scale
LONGEST_NAME = 52
WIDE = 5.0  # ratios so far apart are drawn on a logarithmic scale
RATIOS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)


@dataclass(frozen=True, slots=True)
class RatioDot:
    """A case of one of the runs; `run` is the run's index."""

    run: int
    case: ComparedCase


def run_style(run: int) -> Style:
    return style_of(look_of(run))


def draw(dots: Sequence[RatioDot], names: Sequence[str]) -> Markup | None:
    """The chart: a row for each case with a mark for each run; `names` are the runs' names. None if no case has a
    ratio.
    """
    known = [dot for dot in dots if dot.case.ratio is not None]
    if not known:
        return None
    rows = {key_of(dot.case): name_of(dot.case) for dot in known}
    places = {key: place for place, key in enumerate(rows)}
    left = 14 + LETTER * max(map(len, rows.values()))
    ends = [end for dot in known for end in (dot.case.ratio, dot.case.ratio_lo, dot.case.ratio_hi) if end]
    span = (min([*ends, 1.0]), max([*ends, 1.0]))
    x = _scale(span, left)
    height = TOP + LINE * len(rows) + FOOT
    picture = Drawing(left + WIDTH + RIGHT, height, "Speed over that of the first run, with its interval.")
    _ground(picture, x, span, height - FOOT)
    for row, name in enumerate(rows.values()):
        picture.text(left - 8, TOP + LINE * (row + 0.5) + 4, name, anchor="end")
    for dot in known:
        shift = (dot.run - (len(names) - 1) / 2) * min(5.0, LINE / (len(names) + 1))
        _dot(picture, dot, names[dot.run], x, TOP + LINE * (places[key_of(dot.case)] + 0.5) + shift)
    return picture.svg()


def key_of(case: ComparedCase) -> Hashable:
    """Equal for the same case of several runs."""
    return case.kernel, tuple(sorted(case.config.items())), case.dtype, case.m, case.n, case.k, case.batch


def name_of(case: ComparedCase) -> str:
    size = size_of(case.m, case.n, case.k, case.batch)
    whole = ", ".join((case.kernel, case.dtype, size, *([config(case.config)] if case.config else [])))
    return whole if len(whole) <= LONGEST_NAME else whole[: LONGEST_NAME - 1] + "…"


def _scale(span: tuple[float, float], left: float) -> Scale:
    lo, hi = span
    ends = (left, left + WIDTH)
    if hi / lo > WIDE:
        return logarithmic(lo / 1.1, hi * 1.1, *ends)
    room = max((hi - lo) * 0.06, 0.005)
    return linear(lo - room, hi + room, *ends)


def _ground(picture: Drawing, x: Scale, span: tuple[float, float], foot: float) -> None:
    lo, hi = span
    is_wide = hi / lo > WIDE
    ticks = [value for value in RATIOS if lo <= value <= hi] if is_wide else even_steps(lo, hi)
    for value in ticks:
        picture.line("grid", [(x(value), TOP), (x(value), foot)])
        picture.text(x(value), foot + 16, format_number(value), anchor="middle", kind="faint")
    picture.line("roof", [(x(1.0), TOP - 4), (x(1.0), foot)])
    picture.text(x(1.0) + 8, foot + 33, "faster →")
    picture.text(x(1.0) - 8, foot + 33, "← slower", anchor="end")


def _dot(picture: Drawing, dot: RatioDot, run: str, x: Scale, y: float) -> None:
    case, style = dot.case, run_style(dot.run)
    assert case.ratio is not None
    between = ""
    if case.ratio_lo is not None and case.ratio_hi is not None:
        between = f" ({format_number(case.ratio_lo)} to {format_number(case.ratio_hi)})"
    picture.begin(f"{run}; {name_of(case)}: {format_number(case.ratio)} times as fast{between}, {case.verdict}")
    if case.ratio_lo is not None and case.ratio_hi is not None:
        picture.line(style.hue, [(x(case.ratio_lo), y), (x(case.ratio_hi), y)])
    picture.mark(style, x(case.ratio), y, radius=4, hollow=case.verdict in ("same", "ambiguous", "not comparable"))
    picture.end()
