"""The figures of a plot as tables, so that no figure is available only in a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from analysis.comparison.shares import shared_products
from analysis.curves import curves, is_library, speed_ups
from analysis.library import baseline_fractions
from analysis.measurement import Measurement, size_of
from analysis.plots.configs import fastest, short, sweeps
from analysis.plots.device import roofed, split_times
from analysis.roofline import measured_roofs, point, theoretical_roofs, units_of
from service.dashboard.words import UNKNOWN, figure, percent

MAX_ROWS = 200  # configs of a sweep
MAX_COLUMNS = 12  # sizes shown side by side; if there are more, they become rows
Value = Callable[[Measurement], float | None]


@dataclass(frozen=True, slots=True)
class PlotTable:
    """A table; the first cell of a row names it, the others are figures."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(name: str, found: Sequence[Measurement]) -> list[PlotTable]:
    """The tables of the plot of that name."""
    match name:
        case "gflops":
            return list(_by_size(found, "GFLOPS", lambda one: one.gflops))
        case "time":
            return list(_by_size(found, "Kernel time, ms", lambda one: one.kernel_ms))
        case "error":
            return list(_by_size(found, "Relative error against float64", lambda one: one.error_vs_float64))
        case "speedup":
            ratios = _by_id(found, speed_ups(found, "naive"))
            return list(_by_size(found, "Speed over that of naive", lambda one: ratios[id(one)]))
        case "fraction-of-baseline":
            shares = _by_id(found, baseline_fractions(found))
            own = [one for one in found if not is_library(one.kernel)]
            return list(_by_size(own, "Speed over the library's", lambda one: shares[id(one)], percent))
        case "beside-library":
            return _beside_library(found)
        case "breakdown":
            return [_breakdown(found)]
        case "roofline":
            return [_roofline(found)]
        case _:  # of tile configs
            return list(_configs(found))


def _beside_library(found: Sequence[Measurement]) -> list[PlotTable]:
    """One table: a row for each kernel at each product."""
    rows = [
        [
            each.measurement.label,
            each.measurement.dtype,
            product.size,
            figure(each.measurement.gflops),
            percent(each.value),
            f"{percent(each.interval.lo)} to {percent(each.interval.hi)}" if each.interval else UNKNOWN,
            product.line.name,
        ]
        for product in shared_products(found)
        for each in product.shares
    ]
    head = ["Kernel", "Type", "Matrix size", "GFLOPS", "Of the library", "Interval", "Which is"]
    return [PlotTable("Kernels beside the library's fastest line of the same accuracy", head, rows)]


def _size(one: Measurement) -> str:
    return size_of(one.m, one.n, one.k, one.batch)


def _by_id(found: Sequence[Measurement], values: Sequence[float | None]) -> dict[int, float | None]:
    return {id(one): value for one, value in zip(found, values, strict=True)}


def _by_size(
    found: Sequence[Measurement], caption: str, value: Value, format_number: Callable[[float | None], str] = figure
) -> Iterator[PlotTable]:
    """A table for each element type: kernels at their fastest config, by size; if there are many sizes, they are the
    rows.
    """
    drawn = curves(found)
    for dtype in dict.fromkeys(curve.dtype for curve in drawn):
        mine = [curve for curve in drawn if curve.dtype == dtype]
        points = sorted((one for curve in mine for one in curve.points), key=lambda one: one.size)
        sizes = list(dict.fromkeys(map(_size, points)))
        rows = []
        for curve in mine:
            known = {_size(one): value(one) for one in curve.points}
            if any(each is not None for each in known.values()):
                rows.append([curve.label, *(format_number(known.get(size)) for size in sizes)])
        if not rows:
            continue
        title = f"{caption}, {dtype}, by N"
        if len(sizes) <= max(MAX_COLUMNS, len(rows)):
            yield PlotTable(title, ["Kernel", *sizes], rows)
        else:
            labels, *columns = zip(*rows, strict=True)
            by_size = [[size, *cells] for size, cells in zip(sizes, columns, strict=True)]
            yield PlotTable(title, ["Matrix size", *labels], by_size)


def _configs(found: Sequence[Measurement]) -> Iterator[PlotTable]:
    for sweep in sweeps(found):
        rows = [
            [short(sweep, config), *(figure(sweep.gflops.get((config, size))) for size in sweep.sizes)]
            for config in fastest(sweep, MAX_ROWS)
        ]
        yield PlotTable(f"GFLOPS of {sweep.label}, {sweep.dtype}, by N", ["Config", *sweep.sizes], rows)


def _breakdown(found: Sequence[Measurement]) -> PlotTable:
    rows = [
        [
            _name(one.measurement),
            figure(one.h2d_ms),
            figure(one.kernel_ms),
            figure(one.d2h_ms),
            figure(one.total_ms),
            percent(one.shares[1]),
            figure(one.gflops_with_copies),
        ]
        for one in split_times(found)
    ]
    head = ["Product", "Copy in, ms", "Kernel, ms", "Copy out, ms", "In all, ms", "Kernel, share", "GFLOPS"]
    return PlotTable("Where the time goes, one after the other", head, rows)


def _name(one: Measurement) -> str:
    return f"{one.label}, {one.dtype}, {_size(one)}"


def _roofline(found: Sequence[Measurement]) -> PlotTable:
    head = ["Product", "GFLOPS", "Moved once", "By tiles", "Stated roof", "Measured roof", "Of measured"]
    return PlotTable(
        "Under the roofs: FLOP per byte if each matrix moves once, and by what tiles read; roofs in GFLOPS",
        head,
        list(map(_roof_row, roofed(found))),
    )


def _roof_row(one: Measurement) -> list[str]:
    units = units_of(one)
    stated, measured = (
        point(one, roofs) for roofs in (theoretical_roofs(one.device, units), measured_roofs(one.device, units))
    )
    tiles = point(one, theoretical_roofs(one.device, units), "tile")
    return [
        _name(one),
        figure(one.gflops),
        figure(stated.intensity) if stated else UNKNOWN,
        figure(tiles.intensity) if tiles else UNKNOWN,
        figure(stated.attainable) if stated else UNKNOWN,
        figure(measured.attainable) if measured else UNKNOWN,
        percent(measured.fraction) if measured else UNKNOWN,
    ]
