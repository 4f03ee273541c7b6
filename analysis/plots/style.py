"""The style of matplotlib's plots: colours that colour-blind readers can distinguish, with different markers and
dashes, and plain axes.

The colours are Okabe and Ito's (Color Universal Design, 2008), darkened where they are pale on white.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from math import ceil, sqrt
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from analysis.plots.compact import compact
from analysis.plots.description import MIN_LOG_SPAN, number
from analysis.plots.looks import Look
from analysis.roofline import RoofKind
from jobs.errors import ExtraMissing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Form = Literal["svg", "png"]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b3417f", "#3a9bdc", "#a8780b", "#555555")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
ROOF_DASHES: dict[RoofKind, str] = {"theoretical": "--", "measured": "-"}
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (2, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
INK, FAINT, GRID = "#222222", "#6b6b6b", "#e3e3e3"
WIDTH_IN, PANEL_IN, LEGEND_ROW_IN, LEGEND_GAP_IN = 7.2, 3.7, 0.19, 0.12
LEGEND_LETTERS = ((3, 24), (2, 42))  # columns, and the longest name that they hold

_SETTINGS: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#9a9a9a",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9.5,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "figure.facecolor": "white",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # matplotlib brings it; SVG names this list at each text
    "font.size": 9.5,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "savefig.dpi": 160,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "matmul-service",  # the same ids in every run
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a name does not begin a formula
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
}
_NO_METADATA: dict[Form, dict[str, None]] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
_drawing = Lock()  # matplotlib's settings and font cache belong to the whole process


def rendered(draw: Callable[[], Figure], form: Form) -> bytes:
    """The figure that `draw` returns. The same figure gives the same bytes. Raises ExtraMissing without matplotlib."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.backends.backend_svg import FigureCanvasSVG
    except ImportError:
        raise ExtraMissing("Plots need matplotlib: install the extra `report`.") from None
    held = io.BytesIO()
    with _drawing, matplotlib.rc_context(_SETTINGS):
        figure = draw()
        (FigureCanvasSVG if form == "svg" else FigureCanvasAgg)(figure)
        figure.savefig(held, format=form, metadata=_NO_METADATA[form])
    return compact(held.getvalue()) if form == "svg" else held.getvalue()


def panels(
    heights_in: Sequence[float], names: Sequence[str] = (), *, foot_in: float = 0.0
) -> tuple[Figure, list[Axes]]:
    """Plots of these heights, one below the other, with room at the bottom for a legend of these names, or for other
    text."""
    from matplotlib.figure import Figure

    if names:
        foot_in += ceil(len(names) / _legend_columns(names)) * LEGEND_ROW_IN + LEGEND_GAP_IN
    height_in = sum(heights_in) + foot_in
    figure = Figure(figsize=(WIDTH_IN, height_in))
    figure.set_layout_engine("constrained", rect=(0.0, foot_in / height_in, 1.0, 1 - foot_in / height_in))
    return figure, list(figure.subplots(len(heights_in), 1, squeeze=False, height_ratios=heights_in)[:, 0])


def _legend_columns(names: Iterable[str]) -> int:
    """As many columns as the longest name allows."""
    longest = max(map(len, names))
    return next((columns for columns, letters in LEGEND_LETTERS if longest <= letters), 1)


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """At the bottom, each name once."""
    entries: dict[str, Any] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        figure.legend(
            entries.values(), entries.keys(), loc="lower center", ncols=_legend_columns(entries), handlelength=3.2
        )


def style_of(look: Look) -> dict[str, Any]:
    """Libraries are drawn in ink, with hollow marks."""
    style = {
        "marker": MARKERS[look.mark],
        "linestyle": DASHES[look.dash],
        "color": INK if look.hue is None else COLOURS[look.hue],
    }
    return style | {"markerfacecolor": "white"} if look.hue is None else style


def sizes_axis(axes: Axes, sizes: Sequence[float], *, label: str) -> None:
    """A logarithmic axis of sizes; ticks at measured sizes, as far as there is room."""
    axes.set_xscale("log", base=2)
    axes.set_xlabel(label)
    ticks = spaced(sorted(set(sizes)), 1.28)
    axes.set_xticks(ticks, labels=[f"{tick:.0f}" for tick in ticks])
    axes.set_xticks([], minor=True)
    if ticks and min(sizes) == max(sizes):
        axes.set_xlim(ticks[0] / 1.5, ticks[0] * 1.5)


def spaced(rising: Sequence[float], min_ratio: float) -> list[float]:
    """The values that are at least this ratio apart; powers of two are kept first."""
    kept: list[float] = []
    for value in sorted(rising, key=lambda value: (int(value) & (int(value) - 1) != 0, -value)):
        if all(max(value, other) / min(value, other) >= min_ratio for other in kept if value and other):
            kept.append(value)
    return sorted(kept)


def values_axis(axes: Axes, label: str, *, log: bool) -> None:
    """The y axis: plain numbers with a thousands separator; it starts at 0 if it is linear."""
    axes.set_ylabel(label)
    if log:
        axes.set_yscale("log")
        axes.set_ylim(*log_ticks(axes.yaxis, *axes.get_ylim()))
    else:
        axes.set_ylim(bottom=0)
    plain_numbers(axes.yaxis)


def plain_numbers(axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axis.set_minor_formatter(NullFormatter())


def log_ticks(axis: Axis, lo: float, hi: float) -> tuple[float, float]:
    """Limits of a logarithmic axis, so far apart that noise does not fill the panel."""
    from matplotlib.ticker import LogLocator

    if hi / lo < MIN_LOG_SPAN:
        middle = sqrt(lo * hi)
        lo, hi = middle / sqrt(MIN_LOG_SPAN), middle * sqrt(MIN_LOG_SPAN)
    axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0) if hi / lo < 200 else (1.0,)))
    return lo, hi
