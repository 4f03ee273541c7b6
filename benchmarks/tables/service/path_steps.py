"""The picture of the steps that a product's time consists of, before and now, as `make bench-path` recorded them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.plots.style import COLOURS, FAINT, INK, rendered

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEASURED = ("queue", "open", "h2d", "kernel", "check", "d2h", "store")
STEPS = (*MEASURED, "rest")
FILLS = dict(zip(STEPS, (*COLOURS, "#d9d9d9"), strict=True))
WIDTH_IN, BAR_IN, PANEL_IN, FOOT_IN = 8.0, 0.26, 0.62, 0.5
TITLE_IN, TICKS_IN, LEFT_IN, RIGHT_IN = 0.27, 0.27, 0.6, 0.1  # around the bars of a panel


def times(row: Mapping[str, Any]) -> dict[str, float]:
    """Milliseconds by step; the remainder is the rest of the caller's wait."""
    found: dict[str, float] = {name: row[f"{name}_ms"] for name in MEASURED}
    return found | {"rest": row["caller_ms"] - sum(found.values())}


def picture(first: Mapping[str, Any] | None, newest: Mapping[str, Any]) -> bytes | None:
    """The picture as SVG; None if no steps were recorded."""
    by_size: dict[int, dict[str, dict[str, float]]] = {}
    for label, record in (("before", first), ("now", newest)):
        for row in record["rows"] if record else ():
            if row["line"] == "steps":
                by_size.setdefault(row["n"], {})[label] = times(row)
    return rendered(lambda: _drawn(by_size), "svg") if by_size else None


def _drawn(by_size: Mapping[int, Mapping[str, Mapping[str, float]]]) -> Figure:
    from matplotlib.figure import Figure

    heights = [PANEL_IN + BAR_IN * len(bars) for bars in by_size.values()]
    height_in = sum(heights) + FOOT_IN
    figure = Figure(figsize=(WIDTH_IN, height_in))
    top_in, panels = height_in, []
    for (n, bars), panel_in in zip(by_size.items(), heights, strict=True):
        # Fixed positions: those of a layout engine differ in their last digits from run to run, and so would the file.
        bottom_in, inner_in = top_in - panel_in + TICKS_IN, panel_in - TICKS_IN - TITLE_IN
        box = LEFT_IN / WIDTH_IN, bottom_in / height_in, 1 - (LEFT_IN + RIGHT_IN) / WIDTH_IN, inner_in / height_in
        panels.append(figure.add_axes(box))
        _panel(panels[-1], n, bars)
        top_in -= panel_in
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(STEPS), handlelength=1.2, columnspacing=1.2)
    return figure


def _panel(axes: Axes, n: int, bars: Mapping[str, Mapping[str, float]]) -> None:
    names = list(bars)
    ends = [0.0] * len(names)
    for step in STEPS:
        widths = [max(0.0, bars[name][step]) for name in names]
        axes.barh(names, widths, left=ends, label=step, color=FILLS[step], height=0.72)
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    for name, end in zip(names, ends, strict=True):
        axes.annotate(
            f"{sum(bars[name].values()):.3g} ms",
            (end, name),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=INK,
        )
    axes.set_xlim(0, max(ends) * 1.13)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0, labelcolor=FAINT)
    axes.set_title(f"N = {n}")
