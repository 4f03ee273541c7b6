"""Draws plots with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analysis.plots.description import FAR, Axis, Bars, Chart, Grid, Panel, Peak, Placed, Roofline, Rows, number
from analysis.plots.style import (
    COLOURS,
    FAINT,
    GRID,
    INK,
    PANEL_IN,
    ROOF_DASHES,
    WIDTH_IN,
    legend,
    log_ticks,
    panels,
    plain_numbers,
    sizes_axis,
    style_of,
    values_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

HEADROOM = 1.05  # times the highest peak
MANY_PANELS = 3
MAX_MARKS = 100  # of a line: more would cover each other, and cost a report most of its time
ROOM_FOR_LETTERS = 50  # along the x axis
MAX_SIZES_WITH_FIGURES = 11  # columns of a grid that have room for numbers
COLOUR_BAR_IN = 0.55
DISTURBED = "disturbed: no conclusion"
# Around the curve's own mark, which tells the kernel.
RING: Mapping[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 11, "fillstyle": "none", "color": FAINT}
FULL, HOLLOW = "full: moved once", "hollow: what tiles read"
ROOF_NAMES = ("theoretical GB/s", "measured GB/s", FULL, HOLLOW)
PART_STYLES = ((COLOURS[4], "///"), (COLOURS[0], ""), (COLOURS[1], "\\\\\\"))


def figure(shown: Sequence[Panel]) -> Figure:
    """The panels below each other, with one legend."""
    drawn, axes = panels([_height_in(panel, len(shown)) for panel in shown], _names(shown), foot_in=_foot_in(shown))
    images = []
    for place, panel in zip(axes, shown, strict=True):
        match panel:
            case Rows():
                _rows(place, panel)
            case Bars():
                _bars(place, panel)
            case Roofline():
                _roofline(place, panel)
            case Grid():
                images.append(_grid(place, panel))
            case Chart():
                _chart(place, panel)
    if images:
        _colour_bar(drawn, images[0])
    if _names(shown):
        legend(drawn, axes)
    return drawn


def _height_in(panel: Panel, count: int) -> float:
    match panel:
        case Rows():
            return 0.95 + 0.24 * len(panel.series)
        case Bars():
            return 0.9 + 0.23 * len(panel.bars)
        case Grid():
            return 1.0 + 0.25 * len(panel.configs)
        case Roofline():
            return WIDTH_IN * 0.66
        case Chart():
            of_configs = 3.3 if count < MANY_PANELS else 2.4
            return of_configs if panel.x.names else PANEL_IN


def _names(shown: Sequence[Panel]) -> list[str]:
    """Entries of the legend."""
    names: list[str] = []
    for panel in shown:
        if isinstance(panel, Chart):
            names += [series.name for series in panel.series]
            names += [DISTURBED] * any(series.disturbed for series in panel.series)
        elif isinstance(panel, Roofline):
            names += [*(placed.name for placed in panel.placed), *ROOF_NAMES]
        elif isinstance(panel, Bars):
            names += panel.parts
    return list(dict.fromkeys(names))


def _foot_in(shown: Sequence[Panel]) -> float:
    return COLOUR_BAR_IN if isinstance(shown[0], Grid) else 0.0


def _chart(axes: Axes, chart: Chart) -> None:
    for series in chart.series:
        style = style_of(series.look)
        if not series.is_joined:
            style |= {"linestyle": "none"}
        x, y = zip(*series.points, strict=True) if series.points else ((), ())
        marked = _marked(x) if series.is_joined and not chart.x.names else None
        axes.plot(x, y, label=series.name, markevery=marked, **style)
        if series.disturbed:
            axes.plot(*zip(*series.disturbed, strict=True), **RING, label=DISTURBED)
        if series.band and series.is_joined:
            lo, hi = zip(*series.band, strict=True)
            axes.fill_between(x, lo, hi, color=style["color"], alpha=0.18, linewidth=0)
    if chart.level is not None:
        axes.axhline(chart.level, color=FAINT, linewidth=1, zorder=1)
    if chart.x.names:
        _names_axis(axes, chart.x)
    values_axis(axes, chart.y.label, log=chart.y.scale == "log10")
    if not chart.x.names:
        sizes_axis(axes, [size for series in chart.series for size, _ in series.points], label=chart.x.label)
        axes.grid(visible=True, which="major", color=GRID)
    axes.set_title(chart.title)
    _peaks(axes, chart.peaks)


def _marked(sizes: Sequence[float]) -> list[int] | None:
    """The points of a long line that get a mark, as many as stand apart on a logarithmic axis; None for all. The line
    goes through every point."""
    if len(sizes) <= MAX_MARKS:
        return None
    least = (sizes[-1] / sizes[0]) ** (1 / MAX_MARKS)
    kept = [0]
    for place, size in enumerate(sizes[1:], 1):
        if size >= least * sizes[kept[-1]]:
            kept.append(place)
    return kept


def _names_axis(axes: Axes, axis: Axis) -> None:
    axes.set_xticks(range(len(axis.names)), labels=axis.names, **_slanted(axis.names))
    axes.set_xlabel(axis.label)


def _slanted(names: Sequence[str]) -> dict[str, Any]:
    """How names along the x axis stand: slanted if they are too long to stand side by side."""
    is_long = len("".join(names)) >= ROOM_FOR_LETTERS
    return {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if is_long else {}


def _peaks(axes: Axes, peaks: Sequence[Peak]) -> None:
    """Theoretical peaks dashed, measured ones solid. Peaks far above every point are only mentioned. The text is above
    the plot: peaks may lie close together, and no line crosses the text there."""
    high = axes.get_ylim()[1]
    for peak in peaks:
        if peak.gflops <= FAR * high:
            axes.axhline(peak.gflops, color=FAINT, linewidth=1, linestyle=ROOF_DASHES[peak.kind])
            axes.set_ylim(top=max(axes.get_ylim()[1], HEADROOM * peak.gflops))
    if peaks:
        words = "\n".join(peak.words for peak in peaks)
        axes.text(1.0, 1.01, words, transform=axes.transAxes, ha="right", fontsize=8, color=FAINT)


def _rows(axes: Axes, rows: Rows) -> None:
    """Each value as a number, and a bar from quartile to quartile."""
    values = [series.points[0][1] for series in rows.series]
    for row, (series, value) in enumerate(zip(rows.series, values, strict=True)):
        style = style_of(series.look) | {"linestyle": "none"}
        axes.plot([value], [row], **style, zorder=3)
        if series.band:
            axes.plot(series.band[0], [row, row], color=style["color"], linewidth=3, alpha=0.3)
        beside: dict[str, Any] = {"xytext": (7, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
        axes.annotate(number(float(f"{value:.3g}")), (value, row), **beside)
    axes.set_yticks(range(len(rows.series)), labels=[series.name for series in rows.series])
    axes.set_ylim(len(rows.series) - 0.5, -0.5)
    axes.set_xlabel(rows.x.label)
    if rows.x.scale == "log10":
        axes.set_xscale("log")
        lo, hi = log_ticks(axes.xaxis, *axes.get_xlim())
        axes.set_xlim(lo, hi * (hi / lo) ** 0.1)
    else:
        axes.set_xlim(0, max(values) * 1.12)
    plain_numbers(axes.xaxis)
    axes.set_title(rows.title)


def _bars(axes: Axes, bars: Bars) -> None:
    """Shares of each product's time, with the total time beside the bar."""
    left = [0.0] * len(bars.bars)
    for part, (name, (colour, hatch)) in enumerate(zip(bars.parts, PART_STYLES, strict=True)):
        widths = [100 * bar.shares[part] for bar in bars.bars]
        axes.barh(range(len(bars.bars)), widths, left=left, label=name, color=colour, hatch=hatch, edgecolor="white")
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for row, bar in enumerate(bars.bars):
        axes.text(101, row, f"{number(float(f'{bar.total_ms:.3g}'))} ms", va="center", fontsize=8, color=INK)
    axes.set_yticks(range(len(bars.bars)), labels=[bar.short_name for bar in bars.bars])
    axes.invert_yaxis()
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("% of copy in, kernel and copy out, one after the other")
    axes.grid(visible=False, axis="y")


def _grid(axes: Axes, grid: Grid) -> AxesImage:
    """Coloured by the share of the fastest config at each size."""
    percent = [[100 * cell.share if cell else float("nan") for cell in row] for row in grid.cells]
    image = axes.imshow(percent, aspect="auto", cmap="cividis", vmin=0, vmax=100)
    axes.set_xticks(range(len(grid.sizes)), labels=grid.sizes, **_slanted(grid.sizes))
    axes.set_yticks(range(len(grid.configs)), labels=grid.configs)
    axes.set_xlabel("N (m = n = k)" if all(map(str.isdigit, grid.sizes)) else "m×n×k")
    axes.set_ylabel(grid.parameters)
    axes.set_title(f"{grid.title}; GFLOPS, the fastest framed")
    axes.grid(visible=False)
    if len(grid.sizes) <= MAX_SIZES_WITH_FIGURES:
        _figures(axes, grid)
    return image


def _figures(axes: Axes, grid: Grid) -> None:
    measured = ((x, y, cell) for y, row in enumerate(grid.cells) for x, cell in enumerate(row) if cell is not None)
    for x, y, cell in measured:
        frame = {"boxstyle": "square,pad=0.15", "fill": False, "edgecolor": INK} if cell.share == 1 else None
        colour = INK if 100 * cell.share > 55 else "white"
        axes.text(x, y, number(round(cell.gflops)), ha="center", va="center", fontsize=7.5, color=colour, bbox=frame)


def _colour_bar(drawn: Figure, image: AxesImage) -> None:
    """The colour bar at the bottom."""
    height_in = drawn.get_figheight()
    foot = drawn.add_axes((0.3, 0.4 / height_in, 0.4, 0.1 / height_in))
    drawn.colorbar(image, cax=foot, orientation="horizontal", label="% of the fastest config at that N")
    foot.spines["outline"].set_visible(False)


def _roofline(axes: Axes, roofline: Roofline) -> None:
    """A filled mark by the first byte model; for a square product a hollow one by the next. Theoretical roofs dashed,
    measured ones solid."""
    for placed in roofline.placed:
        _placed(axes, placed)
    assert roofline.x.span is not None and roofline.y.span is not None
    for named in roofline.roofs:
        corners = [*named.corners(roofline.x.span)]
        words = f"{named.roofs.kind}: {number(named.roofs.memory_gb_s or 0.0)} GB/s"
        dashes = ROOF_DASHES[named.roofs.kind]
        axes.plot(*zip(*corners, strict=True), color=INK, linewidth=1, linestyle=dashes, zorder=2, label=words)
    words = "\n".join(peak.words for peak in roofline.peaks)  # above the slope, where nothing else is drawn
    axes.text(0.02, 0.98, words, transform=axes.transAxes, va="top", fontsize=8, color=FAINT)
    common: dict[str, Any] = {"color": FAINT, "marker": "o", "linestyle": "none"}
    axes.plot([], [], label=FULL, **common)
    axes.plot([], [], label=HOLLOW, markerfacecolor="white", **common)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(*roofline.x.span)
    axes.set_ylim(*roofline.y.span)
    axes.set_xlabel(roofline.x.label)
    axes.set_ylabel(roofline.y.label)
    for axis in (axes.xaxis, axes.yaxis):
        plain_numbers(axis)


def _placed(axes: Axes, placed: Placed) -> None:
    """The points by both byte models, joined by a line."""
    style = style_of(placed.look) | {"linestyle": "none"}
    x, measurement = [at.intensity for at in placed.at], placed.at[0].measurement
    gflops = measurement.gflops or 1.0
    axes.plot(x[:1], [gflops], label=placed.name, **style, markersize=6, zorder=4)
    if len(x) > 1 and measurement.is_square:
        axes.plot(x[1:], [gflops], **style | {"markerfacecolor": "white"}, markersize=6, zorder=4)
        axes.plot(x, [gflops] * 2, color=style["color"], linewidth=0.6, alpha=0.45)
