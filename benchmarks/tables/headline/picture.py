"""The picture at the top of README.md: our speed relative to cuBLAS at its best, wins and losses alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis.plots.style import COLOURS, FAINT, INK, rendered
from benchmarks.tables.headline.rows import Headline, labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH_IN, ROW_IN, HEAD_IN = 7.6, 0.19, 1.0
COLOUR_OF = {"ours": COLOURS[0], "even": FAINT, "cuBLAS": COLOURS[1]}
NAMED = {"ours": "ours is faster", "even": "no difference that is certain", "cuBLAS": "cuBLAS is faster"}
TICKS = (0.6, 0.8, 1, 1.5, 2, 3, 4, 5)


def draw(device: str, rows: Sequence[Headline]) -> Figure:
    """A bar for each row, from 1 to its ratio, with its interval."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(WIDTH_IN, HEAD_IN + ROW_IN * len(rows)), layout="constrained")
    axes = figure.subplots()
    places = list(range(len(rows)))[::-1]
    for place, row in zip(places, rows, strict=True):
        colour = COLOUR_OF[row.verdict]
        axes.barh(place, row.ratio.value - 1, left=1, height=0.7, color=colour)
        axes.plot((row.ratio.lo, row.ratio.hi), (place, place), color=INK, linewidth=0.8)
        after = max(row.ratio.hi, 1.0) * 1.03
        axes.text(after, place, f"{row.ratio.value:.2f}", va="center", fontsize=7.5, color=INK)
    axes.axvline(1, color=INK, linewidth=0.9)
    axes.set_xscale("log")
    axes.set_xlim(min(1.0, *(row.ratio.lo for row in rows)) * 0.96, max(row.ratio.hi for row in rows) * 1.25)
    axes.set_xticks(TICKS, labels=[f"{tick:g}×" for tick in TICKS])
    axes.minorticks_off()
    axes.set_yticks(places, labels=list(map(labels(rows).__getitem__, rows)), fontsize=8)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"speed over cuBLAS at its best ({device}; operands, N)")
    patches = [Patch(color=COLOUR_OF[verdict], label=label) for verdict, label in NAMED.items()]
    figure.legend(handles=patches, loc="outside upper center", ncols=3, fontsize=8)
    return figure


def picture(device: str, rows: Sequence[Headline]) -> bytes | None:
    """The picture as SVG; None without rows."""
    return rendered(lambda: draw(device, rows), "svg") if rows else None
