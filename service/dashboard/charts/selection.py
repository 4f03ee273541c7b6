"""What the plots of a page are made of: which one, over which fields, laid over by whose results. All of it is in the
address. Pictures and tables are made here; the browser's chart draws the same figures again, so that they can be asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from markupsafe import Markup
from pydantic import Field

from analysis.curves import usable
from analysis.measurement import Measurement
from analysis.plots.by_name import PLOTS, Plot, available_of
from analysis.plots.lines import peaks
from analysis.roofline import ByteModel
from analysis.tables import COLUMNS
from jobs.base import Strict
from jobs.errors import InvalidRequest, NotFound
from kernels.published import PUBLISHED
from service.dashboard.charts import breakdown, heatmap, roofline
from service.dashboard.charts.breakdown import Bars
from service.dashboard.charts.rows import Row, fields_table, known_columns
from service.dashboard.charts.svg import KERNEL_STYLES, MARKS, Style, style_of
from service.dashboard.charts.tables import PlotTable, tables

Text = Annotated[str, Field(max_length=100)]
Scale = Literal["", "log", "linear"]


@dataclass(frozen=True, slots=True)
class Axes:
    """The fields that a plot shows unless others are asked for. An empty x is the size."""

    y: str
    x: str = ""
    colour: str = "kernel"
    configs: Literal["fastest", "all"] = "fastest"


# Plots of lines; the others are drawn whole.
LINES: Mapping[str, Axes] = MappingProxyType(
    {
        "gflops": Axes("gflops"),
        "time": Axes("kernel_ms"),
        "speedup": Axes("speedup_vs_naive"),
        "fraction-of-baseline": Axes("fraction_of_baseline"),
        "error": Axes("error_vs_float64"),
        "block-sizes": Axes("gflops", x="config", colour="n", configs="all"),
    }
)
# Of a field: the ends of its interval, and by what they are multiplied to have its unit.
BANDS: Mapping[str, tuple[str, str, float]] = MappingProxyType(
    {
        "gflops": ("gflops_lo", "gflops_hi", 1.0),
        "kernel_ms": ("time_q1_us", "time_q3_us", 1e-3),
        "fraction_of_baseline": ("fraction_of_baseline_lo", "fraction_of_baseline_hi", 1.0),
    }
)


class ChartView(Strict):
    """Which plot, and how: the query. Empty: as the plot has it."""

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
    bars: Literal["", Bars] = ""

    def link(self, **changes: Any) -> str:
        """To the same page with other values; lists begin at their first page."""
        kept = self.model_dump(by_alias=True, exclude={"number"})
        return "?" + urlencode(_pairs(kept | changes))

    def to_plot(self, name: str) -> str:
        """To another plot, with its own fields; what is laid over stays."""
        return self.link(plot=name, x="", y="", colour="", xscale="", yscale="", configs="", hide=[], model="", bars="")

    @property
    def kept(self) -> list[tuple[str, str]]:
        """For a form that asks for something else of the same page."""
        return _pairs(self.model_dump(exclude={"number"}))

    @property
    def is_own(self) -> bool:
        """Whether other fields are asked for than the plot's own."""
        return bool(self.x or self.y or self.colour)


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    whole = ((name, value if isinstance(value, list) else [value]) for name, value in values.items())
    return [(name, each) for name, several in whole for each in several if each]


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """All that the template of plots needs."""

    plots: Mapping[str, Plot]  # that there is something for
    plot: str  # the chosen one; empty where there is none
    axes: Axes | None  # of a plot of lines
    fields: Sequence[str]  # for x and colour
    numbers: Sequence[str]  # for y
    tables: Sequence[PlotTable]
    drawings: Sequence[tuple[str, Markup]]  # headings and pictures
    legend: Sequence[tuple[str, Markup]]  # labels and their marks
    data: Mapping[str, str]  # attributes for the browser's chart

    @property
    def caption(self) -> str:
        return self.plots[self.plot].caption if self.plot in self.plots else ""


def charts(view: ChartView, found: Sequence[Measurement], rows: Sequence[Row], csv: str) -> Charts:
    """`csv`: address of the same rows. Raises NotFound, InvalidRequest."""
    check(view)
    plots = {name: PLOTS[name] for name in available_of(found)}
    plot = view.plot or next(iter(plots), "")
    axes = LINES.get(plot or "gflops")
    chosen = axes_of(view, axes, rows) if axes else None
    shown = plot in plots
    return Charts(
        plots=plots,
        plot=plot,
        axes=chosen,
        fields=tuple(COLUMNS),
        numbers=tuple(name for name, (kind, _) in COLUMNS.items() if kind in ("number", "integer")),
        tables=_tables(view, plot, chosen, found, rows) if shown else (),
        drawings=_drawings(view, plot, found) if shown else (),
        legend=_legend(view, plot, found) if shown else (),
        data=_data(chosen, found, rows, csv) if chosen and (shown or not plots) else {},
    )


def check(view: ChartView) -> None:
    """Raises NotFound for what is no plot and no published results, InvalidRequest for what is no field."""
    if view.plot and view.plot not in PLOTS:
        raise NotFound(f"There is no plot of that name; there are: {', '.join(PLOTS)}.", field="plot")
    for name in ("x", "y", "colour"):
        if (value := getattr(view, name)) and value not in COLUMNS:
            raise InvalidRequest(f"Results have no field {value!r}; see the head of their CSV.", field=name)
    if view.y and COLUMNS[view.y][0] not in ("number", "integer"):
        raise InvalidRequest(f"Field {view.y!r} is no number; y takes numbers.", field="y")
    if unknown := next((name for name in view.over if name not in PUBLISHED), None):
        raise NotFound(f"There are no published results {unknown!r}; there are: {', '.join(PUBLISHED)}.", field="over")


def axes_of(view: ChartView, own: Axes, rows: Sequence[Row]) -> Axes:
    """What is on them: what is asked for, else the plot's own."""
    return Axes(
        y=view.y or own.y,
        x=view.x or own.x or _size_field(rows),
        colour=view.colour or own.colour,
        configs=view.configs or own.configs,
    )


def _size_field(rows: Sequence[Row]) -> str:
    """N, or operations where shapes are oblong; of a single size the kernels stand side by side."""
    known = [row for row in rows if row["gflops"] is not None]
    field = "n" if all(row["m"] == row["n"] == row["k"] for row in known) else "flops"
    return field if len({row[field] for row in known}) != 1 else "kernel"


def _tables(
    view: ChartView, plot: str, axes: Axes | None, found: Sequence[Measurement], rows: Sequence[Row]
) -> Sequence[PlotTable]:
    if axes is not None and view.is_own:
        return [fields_table(rows, axes.x, axes.y, axes.colour)]
    return tables(plot, found)


def _drawings(view: ChartView, plot: str, found: Sequence[Measurement]) -> Sequence[tuple[str, Markup]]:
    match plot:
        case "roofline":
            drawn = roofline.draw(found, view.model or "compulsory")
            return [("", drawn)] if drawn else ()
        case "breakdown":
            return [("", breakdown.draw(found, view.bars or "share"))]
        case "heatmap":
            return heatmap.draw(found)
        case _:
            return ()


def _legend(view: ChartView, plot: str, found: Sequence[Measurement]) -> Sequence[tuple[str, Markup]]:
    return roofline.legend(found, view.model or "compulsory") if plot == "roofline" else ()


def _data(axes: Axes, found: Sequence[Measurement], rows: Sequence[Row], csv: str) -> Mapping[str, str]:
    """What `chart.js` reads: addresses, fields, looks. As JSON where it is more than a word."""
    at = [one for one in found if usable(one)]
    lines = [
        {"dtype": dtype, "kind": kind, "gflops": gflops, "words": words}
        for dtype in dict.fromkeys(one.dtype for one in at)
        for (kind, gflops), words in peaks([one for one in at if one.dtype == dtype]).items()
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
        "styles": _json({name: _style(style) for name, style in KERNEL_STYLES.items()}),
        "free": _json([_style(style_of(len(KERNEL_STYLES) + place)) for place in range(len(MARKS) * 4)]),
    }


def _style(style: Style) -> list[str]:
    return [style.hue, style.dash, style.mark]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
