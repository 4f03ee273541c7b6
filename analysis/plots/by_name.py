"""Plots of results by name, as SVG or PNG. They take measurements, so published tables are drawn like our own runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from analysis.breakdown import breakdowns
from analysis.curves import is_library, speed_ups, usable
from analysis.measurement import Measurement
from analysis.plots import configs, device, figures, lines
from analysis.plots.description import Panel
from analysis.plots.style import Form, rendered
from analysis.result_models import Results
from analysis.results import measurements
from jobs.errors import NotFound

Measurements = Sequence[Measurement]


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of results (by their names in CSV) that a plot's lines show. An empty x stands for the size."""

    y: str
    x: str = ""
    colour: str = "kernel"
    all_configs: bool = False  # not only each kernel's fastest


@dataclass(frozen=True, slots=True)
class Plot:
    """A sentence on what a plot shows, whether there is something to show, and its description. `fields` of a plot of
    lines are for the browser's chart, where a reader can replace them."""

    title: str
    caption: str
    has_data: Callable[[Measurements], bool]
    describe: Callable[[Measurements], Sequence[Panel]]
    fields: Fields | None = None


PLOTS: Mapping[str, Plot] = MappingProxyType(
    {
        "gflops": Plot(
            "Speed",
            "Speed by size, each kernel at its fastest config. Bands: from the first to the third quartile. Peaks: "
            "dashed, theoretical; solid, measured.",
            lambda own: any(map(usable, own)),
            lambda own: lines.by_size(own, lines.GFLOPS),
            Fields("gflops"),
        ),
        "time": Plot(
            "Time",
            "Kernel time by size; bands from the first to the third quartile.",
            lambda own: any(map(usable, own)),
            lambda own: lines.by_size(own, lines.TIME),
            Fields("kernel_ms"),
        ),
        "speedup": Plot(
            "Speed-up over naive",
            "Speed over that of the naive kernel.",
            lambda own: (
                any(ratio is not None for ratio in speed_ups(own, "naive")) and len({each.label for each in own}) > 1
            ),
            lines.speed_up,
            Fields("speedup_vs_naive"),
        ),
        "fraction-of-baseline": Plot(
            "% of the library, by size",
            "Speed over that of the library at its best in this run: of the same type and accuracy, tuned or on "
            "zero-padded operands where that was measured.",
            lambda own: any(not is_library(each.kernel) for each in lines.with_baseline(own)),
            lines.fraction,
            Fields("fraction_of_library"),
        ),
        "beside-library": Plot(
            "Beside the library",
            "Kernels beside the library, product by product, each at its fastest config.",
            lambda own: any(not is_library(each.kernel) for each in lines.with_baseline(own)),
            lines.beside_library,
        ),
        "error": Plot(
            "Error",
            "Relative error against the product in float64.",
            lambda own: any(usable(each) and each.error_vs_float64 for each in own),
            lambda own: lines.by_size(own, lines.ERROR),
            Fields("error_vs_float64"),
        ),
        "block-sizes": Plot(
            "By tile config",
            "Speed by tile config, one line for each size.",
            lambda own: bool(configs.sweeps(own)),
            configs.config_lines,
            Fields("gflops", x="config", colour="n", all_configs=True),
        ),
        "heatmap": Plot(
            "Tile configs as a heat map",
            "Tile configs by size: GFLOPS, coloured by the share of the fastest config at that size.",
            lambda own: bool(configs.sweeps(own)),
            lambda own: configs.config_grids(own, configs.MAX_IN_GRID),
        ),
        "breakdown": Plot(
            "Where time goes",
            "Where the time goes if operands are copied in, multiplied, and the product copied back.",
            lambda own: bool(breakdowns(own)),
            lambda own: [device.breakdown_bars(own)],
        ),
        "roofline": Plot(
            "Roofline",
            "Largest size of each kernel under the roofs, and products that are not square. Full marks: each matrix "
            "moved once. Hollow marks: what the tiles read; caches serve much of it, so these may stand above what "
            "memory alone allows.",
            lambda own: bool(device.roofed(own)),
            lambda own: [*filter(None, [device.roofline(own, ("compulsory", "tile"))])],
        ),
    }
)


def available(results: Results) -> tuple[str, ...]:
    """Names of the plots that can be drawn from these results."""
    return available_of(measurements(results))


def available_of(own: Measurements) -> tuple[str, ...]:
    return tuple(name for name, plot in PLOTS.items() if plot.has_data(own))


def draw(results: Results, name: str, *, form: Form = "svg") -> bytes:
    """Like `draw_of`, for a benchmark's results."""
    return draw_of(measurements(results), name, form=form)


def draw_of(own: Measurements, name: str, *, form: Form = "svg") -> bytes:
    """One plot. The same input gives the same bytes. Raises NotFound for an unknown name and if the results have
    nothing to draw, ExtraMissing without matplotlib.
    """
    plot = PLOTS.get(name)
    if plot is None:
        raise NotFound(f"There is no plot {name!r}; there are: {', '.join(PLOTS)}.")
    if not plot.has_data(own):
        have = ", ".join(available_of(own)) or "none"
        raise NotFound(f"These results have nothing for the plot {name!r}; they have: {have}.")
    return rendered(lambda: figures.figure(plot.describe(own)), form)
