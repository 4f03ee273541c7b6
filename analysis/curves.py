"""Speed by size, speed-up over a kernel, fraction of the speed of the baseline of the same precision."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.measurement import Measurement
from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import LibraryKernel
from kernels.model.numerics import DTypeName

Extents = tuple[int, int, int]  # m, n and k
MAX_FORMS = 6  # aspect ratios of products that get curves of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """GFLOPS by size, sizes rising, one point each: the fastest measurement there."""

    label: str
    dtype: DTypeName
    points: tuple[Measurement, ...]

    @property
    def gflops(self) -> tuple[tuple[float, float], ...]:
        """(size, GFLOPS)"""
        return tuple((point.size, speed(point)) for point in self.points)


def is_library(kernel: str | None) -> bool:
    return isinstance(BY_NAME.get(kernel or ""), LibraryKernel)


def usable(measurement: Measurement) -> bool:
    """Correct, and with a speed."""
    return measurement.status == "ok" and bool(measurement.gflops)


def speed(measurement: Measurement) -> float:
    """GFLOPS; 0 if it is not usable."""
    return measurement.gflops or 0.0 if measurement.status == "ok" else 0.0


def rank(measurement: Measurement) -> tuple[bool, float]:
    """A sort key: the greatest is the fastest clean measurement, or the fastest disturbed one if none is clean."""
    return measurement.condition.is_clean, speed(measurement)


def case_key(measurement: Measurement, extents: Extents | None = None) -> Hashable:
    """What is multiplied, and on which device: speeds with equal keys may be compared. `extents`: other m, n and k."""
    m, n, k = extents or (measurement.m, measurement.n, measurement.k)
    return (measurement.device.key, measurement.dtype, m, n, k, measurement.batch)


def config_key(config: TileConfig) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(config.items()))


def curves(measurements: Iterable[Measurement], *, by_form: bool = False) -> tuple[Curve, ...]:
    """Curves in order of first appearance: one for each label, element type, batch and device.

    `by_form`: if products of the same size have different aspect ratios, each gets a curve of its own, because a line
    of a plot should join points that differ in size alone.
    """
    groups: dict[Hashable, dict[Hashable, Measurement]] = {}
    for measurement in filter(usable, measurements):
        name = (measurement.label, measurement.dtype, measurement.batch, measurement.device.key)
        by_size = groups.setdefault(name, {})
        size = (measurement.m, measurement.n, measurement.k)
        if size not in by_size or rank(measurement) > rank(by_size[size]):
            by_size[size] = measurement
    lines = (_by_form(list(group.values())) if by_form else {"": list(group.values())} for group in groups.values())
    return tuple(_curve(name, points) for line in lines for name, points in line.items())


def _by_form(points: list[Measurement]) -> dict[str, list[Measurement]]:
    """What is added to the label: nothing if all sizes differ, or if there are too many aspect ratios."""
    forms: dict[str, list[Measurement]] = {}
    for point in points:
        forms.setdefault(f", {form(point)}", []).append(point)
    is_mixed = len({point.size for point in points}) < len(points)
    return forms if is_mixed and len(forms) <= MAX_FORMS else {"": points}


def _curve(name: str, points: Sequence[Measurement]) -> Curve:
    first, ordered = points[0], tuple(sorted(points, key=lambda point: point.size))
    batch = f", batches of {first.batch}" if first.batch > 1 else ""
    return Curve(label=first.label + name + batch, dtype=first.dtype, points=ordered)


def form(measurement: Measurement) -> str:
    """The aspect ratio as text, such as 16×N×N: m, n and k, with N for the largest."""
    extents = measurement.m, measurement.n, measurement.k
    return "×".join("N" if extent == max(extents) else str(extent) for extent in extents)


def speed_ups(measurements: Sequence[Measurement], over: str) -> tuple[float | None, ...]:
    """Speed of each measurement over that of the kernel `over` in its fastest config at the same shape, element type
    and device; a disturbed one counts only if none is clean. None if either has no figure.
    """
    references = _references(measurements, over)
    return tuple(_ratio(measurement, references.get(case_key(measurement))) for measurement in measurements)


def beside_disturbed(measurements: Iterable[Measurement], over: str) -> frozenset[int]:
    """Ids of the measurements whose speed-up over that kernel is one over a disturbed measurement."""
    measurements = list(measurements)
    disturbed = {key for key, one in _references(measurements, over).items() if not one.condition.is_clean}
    return frozenset(id(each) for each in measurements if case_key(each) in disturbed)


def _references(measurements: Iterable[Measurement], over: str) -> Mapping[Hashable, Measurement]:
    """By case. Sorted so that the best of each is the last, which the mapping keeps."""
    found = (measurement for measurement in measurements if measurement.kernel == over and usable(measurement))
    return {case_key(measurement): measurement for measurement in sorted(found, key=rank)}


def _ratio(measurement: Measurement, reference: Measurement | None) -> float | None:
    return speed(measurement) / speed(reference) if usable(measurement) and reference else None
