"""Plots of results by name, as SVG or PNG. They take measurements, so published tables are drawn like our own runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from analysis.breakdown import breakdowns
from analysis.curves import speed_ups, usable
from analysis.measurement import Measurement
from analysis.plots import configs, device, lines
from analysis.plots.lines import Overlays
from analysis.plots.style import Form, rendered
from analysis.result_models import Results
from analysis.results import measurements
from jobs.errors import NotFound

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Found = Sequence[Measurement]


@dataclass(frozen=True, slots=True)
class Plot:
    """What a plot shows in a sentence, whether there is something to show, and how it is drawn."""

    caption: str
    has_data: Callable[[Found], bool]
    figure: Callable[[Found, Overlays], Figure]


PLOTS: Mapping[str, Plot] = MappingProxyType(
    {
        "gflops": Plot(
            "Speed by size, each kernel at its fastest config. Bands: from the first to the third quartile. Peaks: "
            "dashed as stated, full as measured.",
            lambda found: any(map(usable, found)),
            lambda found, overlays: lines.draw_look(found, overlays, lines.gflops_look(), roofs=True),
        ),
        "time": Plot(
            "Kernel time by size; bands from the first to the third quartile.",
            lambda found: any(map(usable, found)),
            lambda found, overlays: lines.draw_look(found, overlays, lines.time_look()),
        ),
        "speedup": Plot(
            "Speed over that of the naive kernel.",
            lambda found: (
                any(ratio is not None for ratio in speed_ups(found, "naive")) and len({one.label for one in found}) > 1
            ),
            lines.draw_speed_up,
        ),
        "fraction-of-baseline": Plot(
            "Speed over that of the library's kernel of the same element type and accuracy.",
            lambda found: any(not lines.is_library(one) for one in lines.with_baseline(found)),
            lines.draw_fraction,
        ),
        "error": Plot(
            "Relative error against the product in float64.",
            lambda found: any(usable(one) and one.error_vs_float64 for one in found),
            lambda found, overlays: lines.draw_look(found, overlays, lines.error_look()),
        ),
        "block-sizes": Plot(
            "Speed by tile config, one line for each size.",
            lambda found: bool(configs.sweeps(found)),
            lambda found, _: configs.draw_block_sizes(found),
        ),
        "heatmap": Plot(
            "Tile configs by size: GFLOPS, coloured by the share of the fastest config at that size.",
            lambda found: bool(configs.sweeps(found)),
            lambda found, _: configs.draw_heatmap(found),
        ),
        "breakdown": Plot(
            "Where the time goes if operands are copied in, multiplied, and the product copied back.",
            lambda found: bool(breakdowns(found)),
            lambda found, _: device.draw_breakdown(found),
        ),
        "roofline": Plot(
            "Largest size of each kernel under the roofs, and products that are not square. Full marks: each matrix "
            "moved once. Hollow marks: what the tiles read; caches serve much of it, so these may stand above what "
            "memory alone allows.",
            lambda found: bool(device.roofed(found)),
            device.draw_roofline,
        ),
    }
)


def available(results: Results) -> tuple[str, ...]:
    """Names of the plots that these results have something for."""
    return available_of(measurements(results))


def available_of(found: Found) -> tuple[str, ...]:
    return tuple(name for name, plot in PLOTS.items() if plot.has_data(found))


def draw(results: Results, name: str, *, form: Form = "svg", overlays: Overlays = ()) -> bytes:
    """As `draw_of`, of a benchmark's results."""
    return draw_of(measurements(results), name, form=form, overlays=overlays)


def draw_of(found: Found, name: str, *, form: Form = "svg", overlays: Overlays = ()) -> bytes:
    """One plot, with others' results laid over where it has sizes or intensities along its foot. The same input gives
    the same bytes. Raises NotFound for a name that is none and for results it has nothing to draw of, ExtraMissing
    without matplotlib."""
    plot = PLOTS.get(name)
    if plot is None:
        raise NotFound(f"There is no plot {name!r}; there are: {', '.join(PLOTS)}.")
    if not plot.has_data(found):
        have = ", ".join(available_of(found)) or "none"
        raise NotFound(f"These results have nothing for the plot {name!r}; they have: {have}.")
    return rendered(lambda: plot.figure(found, overlays), form)
