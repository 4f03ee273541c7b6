"""Plots that hold kernels against the device: time with copies, and the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analysis.breakdown import Breakdown, breakdowns
from analysis.curves import curves, usable
from analysis.measurement import Measurement
from analysis.plots.lines import ROOF_LINES, peaks
from analysis.plots.style import COLOURS, FAINT, INK, WIDTH_IN, legend, line_styles, number, panels, plain_numbers
from analysis.roofline import Point, Roofs, measured_roofs, point, theoretical_roofs, units_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_BARS = 28
FULL, HOLLOW = "full: moved once", "hollow: what tiles read"
ROOF_NAMES = ("theoretical GB/s", "measured GB/s", FULL, HOLLOW)
PARTS = (("copy in", COLOURS[4], "///"), ("kernel", COLOURS[0], ""), ("copy out", COLOURS[1], "\\\\\\"))


def split_times(found: Sequence[Measurement]) -> tuple[Breakdown, ...]:
    """Each kernel's fastest config at each size, by size; if they are many, only the fastest kernel of each size."""
    best = [one for curve in curves(found) for one in curve.points]
    split = sorted(breakdowns(best), key=lambda one: (one.measurement.dtype, one.measurement.size))
    if len(split) <= MAX_BARS:
        return tuple(split)
    fastest: dict[tuple[str, float], Breakdown] = {}
    for one in split:
        place = (one.measurement.dtype, one.measurement.size)
        if place not in fastest or one.kernel_ms < fastest[place].kernel_ms:
            fastest[place] = one
    return tuple(fastest.values())


def draw_breakdown(found: Sequence[Measurement]) -> Figure:
    """Shares of the time of each product, with its whole time beside the bar."""
    split = split_times(found)
    figure, (axes,) = panels(1, heights_in=[0.9 + 0.23 * len(split)], names=[name for name, _, _ in PARTS])
    left = [0.0] * len(split)
    for part, (name, colour, hatch) in enumerate(PARTS):
        widths = [100 * one.shares[part] for one in split]
        axes.barh(range(len(split)), widths, left=left, label=name, color=colour, hatch=hatch, edgecolor="white")
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for place, one in enumerate(split):
        axes.text(101, place, f"{number(float(f'{one.total_ms:.3g}'))} ms", va="center", fontsize=8, color=INK)
    axes.set_yticks(range(len(split)), labels=[_name(one.measurement) for one in split])
    axes.invert_yaxis()
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("% of copy in, kernel and copy out, one after the other")
    axes.grid(visible=False, axis="y")
    legend(figure, [axes])
    return figure


def _name(one: Measurement) -> str:
    return f"{one.label}, {one.size:.0f}" + ("" if one.dtype == "float32" else f", {one.dtype}")


def roofed(found: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """The largest size of each curve, and all that is not square, for its intensity goes by its form; where a roof is
    known for it."""
    shown = (one for curve in curves(found) for one in curve.points if one is curve.points[-1] or not one.is_square)
    return tuple(one for one in shown if any(roofs.ridge for roofs in _roofs(one)))


def _roofs(one: Measurement) -> tuple[Roofs, Roofs]:
    units = units_of(one)
    return theoretical_roofs(one.device, units), measured_roofs(one.device, units)


def draw_roofline(found: Sequence[Measurement], overlays: Sequence[Measurement]) -> Figure:
    """Each curve's largest size: full if each matrix moves once, hollow by what its tiles read. Products that are not
    square: full. Roofs of every type in use: dashed as stated, full as measured."""
    shown = (*roofed(found), *(curve.points[-1] for curve in curves(overlays)))
    styles = line_styles((one.label, one.kernel) for one in shown)
    figure, (axes,) = panels(1, heights_in=[WIDTH_IN * 0.66], names=[*styles, *ROOF_NAMES])
    points = [_placed(axes, one, styles[one.label]) for one in shown]
    x = [at.intensity for pair in points for at in pair]
    y = [at.measurement.gflops or 1.0 for pair in points for at in pair]
    span = (min(0.2, min(x) / 2), max(x) * 3)
    tops = _draw_roofs(axes, [one for one in found if usable(one)], span)
    _key(axes)
    _scales(axes, span, (min(y) / 3, 2.2 * max([*y, *tops])))
    legend(figure, [axes])
    return figure


def _placed(axes: Axes, one: Measurement, look: dict[str, Any]) -> list[Point]:
    """Its points under both byte models, joined."""
    roofs = _roofs(one)[0]
    found = [at for model in ("compulsory", "tile") if (at := point(one, roofs, model)) is not None]
    style = look | {"linestyle": "none"}
    gflops = one.gflops or 1.0
    axes.plot([found[0].intensity], [gflops], label=one.label, **style, markersize=6, zorder=4)
    if len(found) > 1 and one.is_square:
        hollow = style | {"markerfacecolor": "white"}
        axes.plot([found[1].intensity], [gflops], **hollow, markersize=6, zorder=4)
        axes.plot([at.intensity for at in found], [gflops] * 2, color=style["color"], linewidth=0.6, alpha=0.45)
    return found


def _draw_roofs(axes: Axes, found: Sequence[Measurement], span: tuple[float, float]) -> list[float]:
    """Compute roofs of every type in use, and memory's. Returns their GFLOPS."""
    device = found[0].device
    for units in dict.fromkeys(map(units_of, found)):
        for roofs in (theoretical_roofs(device, units), measured_roofs(device, units)):
            if roofs.ridge is not None:
                _roof(axes, roofs, span)
    tops = peaks(found)
    for (_, gflops), told in tops.items():
        axes.text(span[1] / 1.1, gflops * 1.08, told, ha="right", fontsize=8, color=FAINT)
    return [gflops for _, gflops in tops]


def _roof(axes: Axes, roofs: Roofs, span: tuple[float, float]) -> None:
    ridge, memory, gflops = roofs.ridge, roofs.memory_gb_s, roofs.gflops
    assert ridge is not None and memory is not None and gflops is not None
    x = [span[0], ridge, max(span[1], ridge)]
    y = [span[0] * memory, gflops, gflops]
    told = f"{roofs.kind}: {number(memory)} GB/s"
    axes.plot(x, y, color=INK, linewidth=1, linestyle=ROOF_LINES[roofs.kind], zorder=2, label=told)


def _key(axes: Axes) -> None:
    common = {"color": FAINT, "marker": "o", "linestyle": "none"}
    axes.plot([], [], label=FULL, **common)  # type: ignore[arg-type]
    axes.plot([], [], label=HOLLOW, markerfacecolor="white", **common)  # type: ignore[arg-type]


def _scales(axes: Axes, x: tuple[float, float], y: tuple[float, float]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(*x)
    axes.set_ylim(*y)
    axes.set_xlabel("arithmetic intensity, FLOP per byte")
    axes.set_ylabel("GFLOPS")
    for axis in (axes.xaxis, axes.yaxis):
        plain_numbers(axis)
