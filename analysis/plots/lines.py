"""Plots with sizes along the x axis: speed, time, speed-up, fraction of the baseline, error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.curves import Curve, baseline_fractions, curves, speed_ups, usable
from analysis.measurement import Interval, Measurement
from analysis.plots.style import (
    FAINT,
    GRID,
    is_wide,
    legend,
    line_styles,
    log_ticks,
    number,
    panels,
    plain_numbers,
    sizes_axis,
    values_axis,
)
from analysis.roofline import RoofKind, measured_roofs, theoretical_roofs, units_of
from kernels.catalog import BY_NAME
from kernels.model.kernel import LibraryKernel
from kernels.model.numerics import DTYPE_NAMES, DTypeName

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Overlays = Sequence[Measurement]
SQUARE, OBLONG = "N (m = n = k)", "cube root of m·n·k"
FAR = 3.0  # times the top of an axis
HEADROOM = 1.25  # above a peak, for its words
ROOF_LINES: dict[RoofKind, str] = {"theoretical": "--", "measured": "-"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line: places, values, and the band around it where its noise is known."""

    label: str
    kernel: str | None
    dtype: DTypeName
    points: tuple[tuple[float, float], ...]
    band: tuple[Interval, ...] = ()  # one for each point, or none
    foreign: bool = False  # of another's results, laid over these
    square: bool = True  # whether every product is


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is drawn of a measurement, and how the axis says it."""

    axis: str
    value: Callable[[Measurement], float | None]
    band: Callable[[Measurement], Interval | None] = lambda _: None
    log: bool | None = None  # None: by the values
    line: tuple[float, str] | None = None  # a level to hold values against, and its name


def gflops_look() -> Look:
    return Look(axis="GFLOPS", value=lambda one: one.gflops, band=_gflops_band)


def time_look() -> Look:
    return Look(axis="kernel time, ms", value=lambda one: one.kernel_ms, band=_time_band, log=True)


def error_look() -> Look:
    return Look(axis="relative error against float64", value=lambda one: one.error_vs_float64 or None, log=True)


def _time_band(one: Measurement) -> Interval | None:
    return Interval(one.q1_ms, one.q3_ms) if one.q1_ms and one.q3_ms else None


def _gflops_band(one: Measurement) -> Interval | None:
    flops, times = one.problem.flops, _time_band(one)
    return Interval(flops / (times.hi * 1e6), flops / (times.lo * 1e6)) if times else None


def draw_look(found: Sequence[Measurement], overlays: Overlays, look: Look, *, roofs: bool = False) -> Figure:
    """A panel for each element type, a line for each kernel's fastest config, bands from quartile to quartile."""
    own = list(_series(curves(found, by_form=True), look, foreign=False))
    series = own + list(_series(curves(overlays, by_form=True), look, foreign=True))
    return _drawn(series, look, found if roofs else ())


def draw_speed_up(found: Sequence[Measurement], overlays: Overlays) -> Figure:
    look = Look(axis="times as fast as naive", value=lambda _: None, line=(1.0, "naive"))
    over = [*_ratio_series(found, speed_ups(found, "naive"), foreign=False)]
    over += _ratio_series(overlays, speed_ups(overlays, "naive"), foreign=True)
    return _drawn(over, look, ())


def draw_fraction(found: Sequence[Measurement], overlays: Overlays) -> Figure:
    """Libraries are not drawn: each is 100 % of itself."""
    look = Look(axis="% of the library's speed", value=lambda _: None, line=(100.0, "library"), log=False)
    own, other = ([one for one in group if not is_library(one)] for group in (found, overlays))
    percent = _percent(found, own)
    series = [*_ratio_series(own, percent, foreign=False)]
    series += _ratio_series(other, _percent(overlays, other), foreign=True)
    return _drawn(series, look, ())


def is_library(one: Measurement) -> bool:
    return isinstance(BY_NAME.get(one.kernel or ""), LibraryKernel)


def with_baseline(found: Sequence[Measurement]) -> list[Measurement]:
    """Those whose speed has a library's to be held against."""
    return [one for one, ratio in zip(found, baseline_fractions(found), strict=True) if ratio is not None]


def _percent(found: Sequence[Measurement], wanted: Sequence[Measurement]) -> list[float | None]:
    ratios = {id(one): ratio for one, ratio in zip(found, baseline_fractions(found), strict=True)}
    return [None if (ratio := ratios[id(one)]) is None else 100 * ratio for one in wanted]


def _ratio_series(found: Sequence[Measurement], ratios: Sequence[float | None], *, foreign: bool) -> Iterator[Series]:
    """Lines of ratios, on the same points as the curves of speed."""
    by_point = {id(one): ratio for one, ratio in zip(found, ratios, strict=True)}
    look = Look(axis="", value=lambda one: by_point[id(one)])
    return _series(curves(found, by_form=True), look, foreign=foreign)


def _series(found: Sequence[Curve], look: Look, *, foreign: bool) -> Iterator[Series]:
    for curve in found:
        known = [(one, value) for one in curve.points if (value := look.value(one)) is not None]
        bands = [band for one, _ in known if (band := look.band(one)) is not None]
        if known:
            first = curve.points[0]
            yield Series(
                label=f"{curve.label} ({first.device.name or 'unnamed'})" if foreign else curve.label,
                kernel=first.kernel,
                dtype=curve.dtype,
                points=tuple((one.size, value) for one, value in known),
                band=tuple(bands) if len(bands) == len(known) else (),
                foreign=foreign,
                square=all(one.is_square for one, _ in known),
            )


def _drawn(series: Sequence[Series], look: Look, roofed: Sequence[Measurement]) -> Figure:
    dtypes = [dtype for dtype in DTYPE_NAMES if any(one.dtype == dtype for one in series)]
    if len({size for one in series for size, _ in one.points}) == 1:
        return draw_dots(series, dtypes, look)
    styles = line_styles((one.label, one.kernel) for one in _fastest_first(series))
    figure, axes = panels(max(1, len(dtypes)), names=list(styles))
    for panel, dtype in zip(axes, dtypes, strict=False):
        mine = [one for one in series if one.dtype == dtype]
        _panel(panel, mine, look, styles)
        _roofs(panel, [one for one in roofed if one.dtype == dtype and usable(one)])
        if len(dtypes) > 1:
            panel.set_title(dtype)
    legend(figure, axes)
    return figure


def draw_dots(series: Sequence[Series], dtypes: Sequence[DTypeName], look: Look) -> Figure:
    """One size alone: a row for each kernel, with its value in figures and a bar from quartile to quartile."""
    groups = [_fastest_first([one for one in series if one.dtype == dtype]) for dtype in dtypes]
    figure, axes = panels(len(groups), heights_in=[0.95 + 0.24 * len(group) for group in groups])
    for panel, dtype, group in zip(axes, dtypes, groups, strict=True):
        _dots(panel, group, look)
        name = "N" if all(one.square for one in group) else OBLONG
        panel.set_title(f"{dtype}, {name} = {group[0].points[0][0]:.0f}")
    return figure


def _dots(axes: Axes, group: Sequence[Series], look: Look) -> None:
    values = [one.points[0][1] for one in group]
    log = is_wide(values) if look.log is None else look.log
    for row, (one, value) in enumerate(zip(group, values, strict=True)):
        style = line_styles([(one.label, one.kernel)])[one.label] | {"linestyle": "none"}
        axes.plot([value], [row], **style, zorder=3)
        if one.band:
            axes.plot(one.band[0], [row, row], color=style["color"], linewidth=3, alpha=0.3)
        told = {"xytext": (7, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
        axes.annotate(number(float(f"{value:.3g}")), (value, row), **told)  # type: ignore[arg-type]
    axes.set_yticks(range(len(group)), labels=[one.label for one in group])
    axes.set_ylim(len(group) - 0.5, -0.5)
    axes.set_xlabel(look.axis)
    if log:
        axes.set_xscale("log")
        lo, hi = log_ticks(axes.xaxis, *axes.get_xlim())
        axes.set_xlim(lo, hi * (hi / lo) ** 0.1)
    else:
        axes.set_xlim(0, max(values) * 1.12)
    plain_numbers(axes.xaxis)


def _fastest_first(series: Sequence[Series]) -> list[Series]:
    """By the last point, so that a legend's order is the lines'."""
    return sorted(series, key=lambda one: -one.points[-1][1])


def _panel(axes: Axes, series: Sequence[Series], look: Look, styles: Mapping[str, dict[str, Any]]) -> None:
    for one in _fastest_first(series):
        style = styles[one.label]
        if one.foreign:
            style = style | {"markerfacecolor": "white", "linewidth": 0.9, "alpha": 0.8}
        if not one.square:  # a line through products of several forms would say that one grows into the next
            style = style | {"linestyle": "none"}
        x, y = zip(*one.points, strict=True)
        axes.plot(x, y, label=one.label, **style)
        if one.band and one.square:
            lo, hi = zip(*one.band, strict=True)
            axes.fill_between(x, lo, hi, color=style["color"], alpha=0.18, linewidth=0)
    values = [value for one in series for _, value in one.points]
    if look.line:
        axes.axhline(look.line[0], color=FAINT, linewidth=1, zorder=1)
    values_axis(axes, look.axis, log=is_wide(values) if look.log is None else look.log)
    sizes = [size for one in series for size, _ in one.points]
    sizes_axis(axes, sizes, label=SQUARE if all(one.square for one in series) else OBLONG)
    axes.grid(visible=True, which="major", color=GRID)


def _roofs(axes: Axes, found: Sequence[Measurement]) -> None:
    """Peaks of the units in use: dashed as stated, full as measured. Peaks far above every point would only press the
    points together, so they are told in words. Words stand left and right in turn: two peaks may be close."""
    high, far = axes.get_ylim()[1], []
    for place_of, ((kind, gflops), told) in enumerate(peaks(found).items()):
        if gflops > FAR * high:
            far.append(told)
            continue
        axes.axhline(gflops, color=FAINT, linewidth=1, linestyle=ROOF_LINES[kind])
        axes.set_ylim(top=max(axes.get_ylim()[1], HEADROOM * gflops))
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (0, 2), "textcoords": "offset points"}
        x, side = ((0.005, "left"), (0.995, "right"))[place_of % 2]
        axes.annotate(told, (x, gflops), fontsize=8, color=FAINT, ha=side, **place)
    if far:
        axes.text(1.0, 1.01, "; ".join(far), transform=axes.transAxes, ha="right", fontsize=8, color=FAINT)


def peaks(found: Sequence[Measurement]) -> dict[tuple[RoofKind, float], str]:
    """Peaks of the units that the measurements' arithmetic uses, each with its words; equal ones together."""
    names: dict[tuple[RoofKind, float], list[str]] = {}
    for units in dict.fromkeys(units for one in found if (units := units_of(one))):
        for roofs in (theoretical_roofs(found[0].device, units), measured_roofs(found[0].device, units)):
            if roofs.gflops:
                names.setdefault((roofs.kind, roofs.gflops), []).append(units)
    return {
        (kind, gflops): f"{', '.join(units)} peak, {kind}: {number(gflops)}" for (kind, gflops), units in names.items()
    }
