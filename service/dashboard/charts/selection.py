"""The choice of a page's plots: which plot, over which fields, with which results overlaid. All of it is in the page's
address. Pictures and tables are made here; the browser's chart draws the same figures again interactively.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from types import MappingProxyType
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from markupsafe import Markup
from pydantic import Field

from analysis.curves import usable
from analysis.measurement import Measurement
from analysis.plots.by_name import PLOTS, Fields, Plot, available_of
from analysis.plots.configs import config_grids
from analysis.plots.description import FAR, MIN_LOG_SPAN, WIDE, Roofline
from analysis.plots.device import breakdown_bars
from analysis.plots.device import roofline as describe_roofline
from analysis.plots.lines import peaks
from analysis.plots.looks import free_looks
from analysis.roofline import ByteModel
from analysis.tables import COLUMNS
from jobs.base import Strict
from jobs.errors import InvalidRequest, NotFound
from kernels.published import PUBLISHED
from service.dashboard.charts import beside_library, breakdown, heatmap, roofline
from service.dashboard.charts.breakdown import Unit
from service.dashboard.charts.default_plot import default_plot
from service.dashboard.charts.fields import AS_CATEGORIES, menu, words_of
from service.dashboard.charts.rows import Row, fields_table, known_columns
from service.dashboard.charts.svg import KERNEL_STYLES, Style, style_of
from service.dashboard.charts.tables import PlotTable, tables

Text = Annotated[str, Field(max_length=100)]
Scale = Literal["", "log", "linear"]
Menu = Mapping[str, Mapping[str, str]]  # group → field → label
CROWDED = 1.02  # ratio of sizes below which their marks overlap
FREE = 44  # styles for curves that are not kernels
MAX_CATEGORIES = 40  # that can be read side by side


@dataclass(frozen=True, slots=True)
class Axes:
    """The fields of a line plot: its own, or others that were requested."""

    y: str
    x: str
    colour: str
    configs: Literal["fastest", "all"]


# For a field: the ends of its interval, and the factor that converts them to its unit.
BANDS: Mapping[str, tuple[str, str, float]] = MappingProxyType(
    {
        "gflops": ("gflops_lo", "gflops_hi", 1.0),
        "kernel_ms": ("time_q1_us", "time_q3_us", 1e-3),
        "fraction_of_baseline": ("fraction_of_baseline_lo", "fraction_of_baseline_hi", 1.0),
    }
)


class ChartView(Strict):
    """The query: which plot, and how. Empty fields mean the plot's own."""

    plot: Text = ""
    x: Text = ""
    y: Text = ""
    colour: Text = ""
    xscale: Scale = ""
    yscale: Scale = ""
    configs: Literal["", "fastest", "all"] = ""
    over: list[Text] = Field(default_factory=list, max_length=20)  # published results
    hide: list[Text] = Field(default_factory=list, max_length=100)  # entries of the legend
    model: Literal["", ByteModel] = ""
    bars: Literal["", Unit] = ""

    def link(self, **changes: Any) -> str:
        """A link to the same page with other values; lists begin at their first page."""
        kept = self.model_dump(by_alias=True, exclude={"number"})
        return "?" + urlencode(_pairs(kept | changes))

    def to_plot(self, name: str) -> str:
        """A link to another plot, with its own fields; overlays are kept."""
        return self.link(plot=name, x="", y="", colour="", xscale="", yscale="", configs="", hide=[], model="", bars="")

    @property
    def kept(self) -> list[tuple[str, str]]:
        """Hidden fields of a form that changes something else on the same page."""
        return _pairs(self.model_dump(exclude={"number"}))

    @property
    def is_own(self) -> bool:
        """Whether fields other than the plot's own are requested."""
        return bool(self.x or self.y or self.colour)


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    whole = ((name, value if isinstance(value, list) else [value]) for name, value in values.items())
    return [(name, each) for name, several in whole for each in several if each]


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """All that the template of plots needs."""

    plots: Mapping[str, Plot]  # plots that have data
    plot: str  # the chosen plot; empty if there is none
    axes: Axes | None  # of a line plot
    fields: Menu  # for x and colour
    numbers: Menu  # for y
    tables: Sequence[PlotTable]
    drawings: Sequence[tuple[str, Markup]]  # headings and pictures
    legend: Sequence[tuple[str, Markup]]  # labels and their marks
    data: Mapping[str, str]  # attributes for the browser's chart

    @property
    def caption(self) -> str:
        return self.plots[self.plot].caption if self.plot in self.plots else ""


def charts(view: ChartView, found: Sequence[Measurement], rows: Sequence[Row], csv: str) -> Charts:
    """The data of a page's charts. `csv`: address of the same rows. Raises NotFound, InvalidRequest."""
    check(view)
    plots = {name: PLOTS[name] for name in available_of(found)}
    plot = view.plot or ("" if view.is_own else default_plot(plots, found)) or next(iter(plots), "")
    fields = PLOTS[plot or "gflops"].fields
    chosen = axes_of(view, fields, rows) if fields else None
    shown = plot in plots
    return Charts(
        plots=plots,
        plot=plot,
        axes=chosen,
        fields=menu(tuple(COLUMNS)),
        numbers=menu([name for name, (kind, _) in COLUMNS.items() if kind in ("number", "integer")]),
        tables=_tables(view, plot, chosen, found, rows) if shown else (),
        drawings=_drawings(view, plot, found) if shown else (),
        legend=_legend(view, plot, found) if shown else (),
        data=_data(chosen, found, rows, csv) if chosen and (shown or not plots) else {},
    )


def check(view: ChartView) -> None:
    """Raises NotFound for an unknown plot or unknown published results, InvalidRequest for an unknown field."""
    if view.plot and view.plot not in PLOTS:
        raise NotFound(f"There is no plot of that name; there are: {', '.join(PLOTS)}.", field="plot")
    for name in ("x", "y", "colour"):
        if (value := getattr(view, name)) and value not in COLUMNS:
            raise InvalidRequest(f"Results have no field {value!r}; see the head of their CSV.", field=name)
    if view.y and COLUMNS[view.y][0] not in ("number", "integer"):
        raise InvalidRequest(f"Field {view.y!r} is no number; y takes numbers.", field="y")
    if unknown := next((name for name in view.over if name not in PUBLISHED), None):
        raise NotFound(f"There are no published results {unknown!r}; there are: {', '.join(PUBLISHED)}.", field="over")


def axes_of(view: ChartView, own: Fields, rows: Sequence[Row]) -> Axes:
    """The fields on the axes: those requested, otherwise the plot's own."""
    return Axes(
        y=view.y or own.y,
        x=view.x or own.x or _size_field(rows),
        colour=view.colour or own.colour,
        configs=view.configs or ("all" if own.all_configs else "fastest"),
    )


def _size_field(rows: Sequence[Row]) -> str:
    """The x field for sizes: N; sizes as categories if they crowd or are not square, otherwise operations; for a single
    size, the kernels side by side.
    """
    known = [row for row in rows if row["gflops"] is not None]
    sizes = {row["size"] for row in known}
    if len(sizes) == 1:
        return "kernel"
    is_square = all(row["m"] == row["n"] == row["k"] and row["batch"] == 1 for row in known)
    if len(sizes) <= MAX_CATEGORIES and (not is_square or _crowd([int(row["n"] or 0) for row in known])):
        return "size"
    return "n" if is_square else "flops"


def _crowd(sizes: Sequence[int]) -> bool:
    ordered = sorted(set(sizes))
    return any(larger < CROWDED * smaller for smaller, larger in pairwise(ordered))


def _tables(
    view: ChartView, plot: str, axes: Axes | None, found: Sequence[Measurement], rows: Sequence[Row]
) -> Sequence[PlotTable]:
    if axes is not None and view.is_own:
        return [fields_table(rows, axes.x, axes.y, axes.colour)]
    return tables(plot, found)


def _drawings(view: ChartView, plot: str, found: Sequence[Measurement]) -> Sequence[tuple[str, Markup]]:
    match plot:
        case "roofline":
            described = _roofline(view, found)
            return [("", roofline.draw(described))] if described else ()
        case "breakdown":
            return [("", breakdown.draw(breakdown_bars(found), view.bars or "share"))]
        case "beside-library":
            return [("", bars)] if (bars := beside_library.drawing(found)) else ()
        case "heatmap":
            return [(heatmap.heading(grid), heatmap.draw(grid)) for grid in config_grids(found, heatmap.MAX_ROWS)]
        case _:
            return ()


def _roofline(view: ChartView, found: Sequence[Measurement]) -> Roofline | None:
    return describe_roofline(found, [view.model or "compulsory"])


def _legend(view: ChartView, plot: str, found: Sequence[Measurement]) -> Sequence[tuple[str, Markup]]:
    described = _roofline(view, found) if plot == "roofline" else None
    return roofline.legend(described) if described else ()


def _data(axes: Axes, found: Sequence[Measurement], rows: Sequence[Row], csv: str) -> Mapping[str, str]:
    """The data attributes for `chart.js`: addresses, fields, styles; JSON unless it is a single word."""
    at = [each for each in found if usable(each)]
    lines = [
        {"dtype": dtype, **asdict(peak)}
        for dtype in dict.fromkeys(each.dtype for each in at)
        for peak in peaks([each for each in at if each.dtype == dtype])
    ]
    return {
        "csv": csv,
        "x": axes.x,
        "y": axes.y,
        "colour": axes.colour,
        "configs": axes.configs,
        "kinds": _json({name: kind for name, (kind, _) in COLUMNS.items()}),
        "known": _json(known_columns(rows)),
        "bands": _json(dict(BANDS)),
        "peaks": _json(lines),
        "words": _json({name: words_of(name).removesuffix(AS_CATEGORIES) for name in (axes.x, axes.y, axes.colour)}),
        "rules": _json({"wide": WIDE, "far": FAR, "minLogSpan": MIN_LOG_SPAN}),
        "styles": _json({name: _style(style) for name, style in KERNEL_STYLES.items()}),
        "free": _json([_style(style_of(look)) for look in islice(free_looks(), FREE)]),
    }


def _style(style: Style) -> list[str]:
    return [style.hue, style.dash, style.mark]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
