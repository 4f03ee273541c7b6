"""Plots with sizes along the x axis: speed, time, speed-up, fraction of the baseline, error."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from analysis.curves import Curve, beside_disturbed, curves, is_library, speed_ups, usable
from analysis.library import baseline_fractions, beside_disturbed_library
from analysis.measurement import Interval, Measurement
from analysis.plots.description import Axis, Chart, Panel, Peak, Rows, Scale, Series, is_wide, number
from analysis.plots.looks import looks
from analysis.roofline import RoofKind, measured_roofs, theoretical_roofs, units_of
from kernels.model.numerics import DTYPE_NAMES, DTypeName

Measurements = Sequence[Measurement]
Value = Callable[[Measurement], float | None]
SQUARE, OBLONG = "N (m = n = k)", "cube root of m·n·k"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What is plotted of a measurement, and the label of its axis."""

    label: str
    value: Value
    band: Callable[[Measurement], Interval | None] = lambda _: None
    scale: Scale | None = None  # None: chosen from the values
    level: float | None = None  # to compare values with
    has_peaks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A series, and what determines its place among the others."""

    dtype: DTypeName
    kernel: str | None
    name: str
    points: tuple[tuple[float, float], ...]
    band: tuple[Interval, ...]
    disturbed: tuple[tuple[float, float], ...]
    is_square: bool  # whether every product is square


def _time_band(measurement: Measurement) -> Interval | None:
    return Interval(measurement.q1_ms, measurement.q3_ms) if measurement.q1_ms and measurement.q3_ms else None


def _gflops_band(measurement: Measurement) -> Interval | None:
    flops, times = measurement.problem.flops, _time_band(measurement)
    return Interval(flops / (times.hi * 1e6), flops / (times.lo * 1e6)) if times else None


GFLOPS = Quantity(label="GFLOPS", value=lambda each: each.gflops, band=_gflops_band, has_peaks=True)
TIME = Quantity(label="kernel time, ms", value=lambda each: each.kernel_ms, band=_time_band, scale="log10")
ERROR = Quantity(
    label="relative error against float64", value=lambda each: each.error_vs_float64 or None, scale="log10"
)


def by_size(measurements: Measurements, quantity: Quantity) -> tuple[Panel, ...]:
    """A panel for each element type, a line for each kernel's fastest config, bands from quartile to quartile."""
    return _panels(_lines(measurements, quantity), quantity, measurements if quantity.has_peaks else ())


def speed_up(measurements: Measurements) -> tuple[Panel, ...]:
    quantity = Quantity(label="times as fast as naive", value=lambda _: None, level=1.0)
    ratios, doubtful = speed_ups(measurements, "naive"), beside_disturbed(measurements, "naive")
    return _panels(_ratio_lines(measurements, ratios, doubtful), quantity, ())


def fraction(measurements: Measurements) -> tuple[Panel, ...]:
    """Libraries are not drawn: each is 100 % of itself."""
    quantity = Quantity(label="% of the library's speed", value=lambda _: None, level=100.0, scale="linear")
    own = [each for each in measurements if not is_library(each.kernel)]
    doubtful = beside_disturbed_library(measurements)
    return _panels(_ratio_lines(own, _percent(measurements, own), doubtful), quantity, ())


def beside_library(measurements: Measurements) -> tuple[Panel, ...]:
    """Like `fraction`, with a panel for each product, whose kernels are listed below each other."""
    products = dict.fromkeys((each.m, each.n, each.k, each.batch) for each in with_baseline(measurements))
    groups = ([one for one in measurements if (one.m, one.n, one.k, one.batch) == product] for product in products)
    return tuple(panel for group in groups for panel in fraction(group))


def with_baseline(measurements: Measurements) -> list[Measurement]:
    """Measurements that were taken together with a library's kernel."""
    ratios = zip(measurements, baseline_fractions(measurements), strict=True)
    return [each for each, ratio in ratios if ratio is not None]


def _percent(measurements: Measurements, wanted: Measurements) -> list[float | None]:
    ratios = {id(each): ratio for each, ratio in zip(measurements, baseline_fractions(measurements), strict=True)}
    return [None if (ratio := ratios[id(each)]) is None else 100 * ratio for each in wanted]


def _ratio_lines(measurements: Measurements, ratios: Sequence[float | None], doubtful: Collection[int]) -> list[_Line]:
    """Lines of ratios, at the same points as the curves of speed. `doubtful`: ids of what is compared with a disturbed
    measurement."""
    by_point = {id(each): ratio for each, ratio in zip(measurements, ratios, strict=True)}
    quantity = Quantity(label="", value=lambda each: by_point[id(each)])
    return _lines(measurements, quantity, doubtful)


def _lines(measurements: Measurements, quantity: Quantity, doubtful: Collection[int] = ()) -> list[_Line]:
    lines = (_line(curve, quantity, doubtful) for curve in curves(measurements, by_form=True))
    return [line for line in lines if line is not None]


def _line(curve: Curve, quantity: Quantity, doubtful: Collection[int]) -> _Line | None:
    known = [(each, value) for each in curve.points if (value := quantity.value(each)) is not None]
    if not known:
        return None
    bands = [band for each, _ in known if (band := quantity.band(each)) is not None]
    first = curve.points[0]
    return _Line(
        dtype=curve.dtype,
        kernel=first.kernel,
        name=curve.label,
        points=tuple((each.size, value) for each, value in known),
        band=tuple(bands) if len(bands) == len(known) else (),
        disturbed=tuple(
            (each.size, value) for each, value in known if id(each) in doubtful or not each.condition.is_clean
        ),
        is_square=all(each.is_square for each, _ in known),
    )


def _panels(lines: Sequence[_Line], quantity: Quantity, with_peaks: Measurements) -> tuple[Panel, ...]:
    dtypes = [dtype for dtype in DTYPE_NAMES if any(line.dtype == dtype for line in lines)]
    groups = {dtype: _fastest_first([line for line in lines if line.dtype == dtype]) for dtype in dtypes}
    if len({size for line in lines for size, _ in line.points}) == 1:
        return tuple(_rows(dtype, group, quantity) for dtype, group in groups.items())
    series = _series(_fastest_first(lines))
    return tuple(
        Chart(
            title=dtype if len(dtypes) > 1 else "",
            x=Axis(label=_size_label(group), scale="log2"),
            y=Axis(label=quantity.label, scale=_scale(quantity, group)),
            series=tuple(series[id(line)] for line in group),
            level=quantity.level,
            peaks=peaks([each for each in with_peaks if each.dtype == dtype and usable(each)]),
        )
        for dtype, group in groups.items()
    )


def _series(lines: Sequence[_Line]) -> dict[int, Series]:
    """Series by the ids of their lines. `lines` are all lines of the plot, so that no two look alike."""
    by_name = looks((line.name, line.kernel) for line in lines)
    return {
        id(line): Series(
            name=line.name,
            look=by_name[line.name],
            points=line.points,
            band=line.band,
            disturbed=line.disturbed,
            is_joined=line.is_square,
        )
        for line in lines
    }


def _rows(dtype: str, group: Sequence[_Line], quantity: Quantity) -> Rows:
    """For a single size; each row has the look of its own kernel."""
    size = group[0].points[0][0]
    name = "N" if all(line.is_square for line in group) else OBLONG
    return Rows(
        title=f"{dtype}, {name} = {size:.0f}",
        x=Axis(label=quantity.label, scale=_scale(quantity, group)),
        series=tuple(series for line in group for series in _series([line]).values()),
    )


def _size_label(group: Sequence[_Line]) -> str:
    return SQUARE if all(line.is_square for line in group) else OBLONG


def _scale(quantity: Quantity, group: Sequence[_Line]) -> Scale:
    wide = is_wide([value for line in group for _, value in line.points])
    return quantity.scale or ("log10" if wide else "linear")


def _fastest_first(lines: Sequence[_Line]) -> list[_Line]:
    """Sorted by the last point, so that the legend has the order of the lines."""
    return sorted(lines, key=lambda line: -line.points[-1][1])


def peaks(measurements: Measurements) -> tuple[Peak, ...]:
    """Peaks of the units that the measurements' arithmetic uses, each with its text; equal ones are merged."""
    names: dict[tuple[RoofKind, float], list[str]] = {}
    for units in dict.fromkeys(units for each in measurements if (units := units_of(each))):
        device = measurements[0].device
        for roofs in (theoretical_roofs(device, units), measured_roofs(device, units)):
            if roofs.gflops:
                names.setdefault((roofs.kind, roofs.gflops), []).append(units)
    return tuple(
        Peak(kind, gflops, f"{', '.join(units)} peak, {kind}: {number(gflops)} GFLOP/s")
        for (kind, gflops), units in names.items()
    )
