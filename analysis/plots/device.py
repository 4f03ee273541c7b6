"""Plots that compare kernels with the device: time with copies, and the roofline."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.breakdown import Breakdown, breakdowns
from analysis.curves import curves, usable
from analysis.measurement import Measurement, size_of
from analysis.plots.description import Axis, Bar, Bars, NamedRoofs, Placed, Roofline
from analysis.plots.lines import peaks
from analysis.plots.looks import looks
from analysis.roofline import ByteModel, Point, Roofs, measured_roofs, point, theoretical_roofs, units_of

MAX_BARS = 28
PARTS = ("copy in", "kernel", "copy out")


def split_times(measurements: Sequence[Measurement]) -> tuple[Breakdown, ...]:
    """Each kernel's fastest config at each size, by size; if there are many, only the fastest kernel of each size."""
    best = [measurement for curve in curves(measurements) for measurement in curve.points]
    split = sorted(breakdowns(best), key=lambda each: (each.measurement.dtype, each.measurement.size))
    if len(split) <= MAX_BARS:
        return tuple(split)
    fastest: dict[tuple[str, str], Breakdown] = {}
    for each in split:
        place = (each.measurement.dtype, _size(each.measurement))
        if place not in fastest or each.kernel_ms < fastest[place].kernel_ms:
            fastest[place] = each
    return tuple(fastest.values())


def breakdown_bars(measurements: Sequence[Measurement]) -> Bars:
    """A bar for each product of `split_times`."""
    return Bars(parts=PARTS, bars=tuple(map(_bar, split_times(measurements))))


def _bar(split: Breakdown) -> Bar:
    measurement = split.measurement
    usual = "" if measurement.dtype == "float32" else f", {measurement.dtype}"
    return Bar(
        name=name_of(measurement),
        short_name=f"{measurement.label}, {_size(measurement)}{usual}",
        ms=(split.h2d_ms, split.kernel_ms, split.d2h_ms),
        shares=split.shares,
    )


def name_of(measurement: Measurement) -> str:
    """Kernel, type and size."""
    return f"{measurement.label}, {measurement.dtype}, {_size(measurement)}"


def _size(measurement: Measurement) -> str:
    return size_of(measurement.m, measurement.n, measurement.k, measurement.batch)


def roofed(measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """The largest size of each curve, and all products that are not square, because their intensity depends on their
    aspect ratio. Only those with a known roof."""
    shown = (
        measurement
        for curve in curves(measurements)
        for measurement in curve.points
        if measurement is curve.points[-1] or not measurement.is_square
    )
    return tuple(measurement for measurement in shown if any(roofs.ridge for roofs in both_roofs(measurement)))


def both_roofs(measurement: Measurement) -> tuple[Roofs, Roofs]:
    """Theoretical and measured roofs."""
    units = units_of(measurement)
    return theoretical_roofs(measurement.device, units), measured_roofs(measurement.device, units)


def best_roofs(measurement: Measurement) -> Roofs:
    """Measured roofs if they are known, else theoretical ones."""
    theoretical, measured = both_roofs(measurement)
    return measured if measured.ridge else theoretical


def roofline(measurements: Sequence[Measurement], models: Sequence[ByteModel]) -> Roofline | None:
    """Measurements under the roofs of all units in use, placed by these byte models. Measurements whose bytes no model
    knows are left out. None if nothing can be placed, since counters are rarely read."""
    own = roofed(measurements)
    by_label = looks((measurement.label, measurement.kernel) for measurement in own)
    placed = [Placed(each.label, by_label[each.label], best_roofs(each), _points(each, models)) for each in own]
    placed = [each for each in placed if each.at]
    if not placed:
        return None
    there = {id(each.at[0].measurement) for each in placed}
    roofs = _named_roofs([measurement for measurement in own if id(measurement) in there])
    x, y = _spans(placed, roofs)
    return Roofline(
        x=Axis(label="arithmetic intensity, FLOP per byte", scale="log2", span=x),
        y=Axis(label="GFLOPS", scale="log10", span=y),
        models=tuple(models),
        placed=tuple(placed),
        roofs=roofs,
        peaks=peaks([measurement for measurement in measurements if usable(measurement)]),
    )


def _points(measurement: Measurement, models: Sequence[ByteModel]) -> tuple[Point, ...]:
    roofs = best_roofs(measurement)
    return tuple(at for model in models if (at := point(measurement, roofs, model)) is not None)


def _named_roofs(measurements: Sequence[Measurement]) -> tuple[NamedRoofs, ...]:
    """The roofs of the units of each type in use. Equal roofs appear once, with all their names."""
    known: dict[Roofs, list[str]] = {}
    for measurement in measurements:
        for roofs in both_roofs(measurement):
            units = units_of(measurement)
            if roofs.ridge is not None and units and units not in known.setdefault(roofs, []):
                known[roofs].append(units)
    return tuple(NamedRoofs(", ".join(names), roofs) for roofs, names in known.items())


def _spans(placed: Sequence[Placed], roofs: Sequence[NamedRoofs]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Axis ranges that contain every point and every ridge."""
    points = [at for each in placed for at in each.at]
    places = [at.intensity for at in points] + [each.roofs.ridge or 1.0 for each in roofs]
    speeds = [at.measurement.gflops or 1.0 for at in points] + [each.roofs.gflops or 1.0 for each in roofs]
    span = (min(places) / 4, max(places) * 3)
    foot = min((each.roofs.memory_gb_s or 1.0 for each in roofs), default=1.0) * span[0]
    return span, (min([*speeds, 2 * foot]) / 2, max(speeds) * 2.4)
