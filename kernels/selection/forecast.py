"""Forecasts the speed of kernels for a product that was not measured, from nearby shapes that were.

Of each kernel, the library's among them, the time is forecast. What its work should take (tiles, waves, passes over
memory) is arithmetic (`cost_model/model.py`). Measured times differ from that by something that is alike at nearby
shapes. It is interpolated by kriging (Krige 1951, Matheron 1963): weights that are best where values at two shapes are
the more alike the nearer they are (`distance.py`), so that shapes close together count as one and trends go on. How
much they vary is estimated from the same values (as in Sacks and others, "Design and Analysis of Computer Experiments",
1989), so a forecast has a standard deviation, and a kernel of ours counts by the lower end of its speed over the
library's: a library adapts to a shape, and its tuned entry is there wherever ours would be a gamble.

A kernel that chooses its own config by what each should take chooses it anew.

A kernel that makes its products of another type's is not as exact as the library everywhere. Here its configs stand
for themselves, and one counts only if its error over the library's should be well below one here, by kriging too, and
was so at the nearest shapes that it was tried at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp, log, log2, sqrt

import numpy as np

from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel, DeviceTraits, Kernel, LibraryKernel
from kernels.model.numerics import Problem
from kernels.model.triangle import whole
from kernels.selection.cost_model.configs import ConfigItems, items, suited
from kernels.selection.cost_model.model import cost_model_of, log_us_of
from kernels.selection.distance import Place, place_of
from kernels.selection.nearby import Nearby
from kernels.selection.triangles import triangle_gain
from kernels.selection.tuned import Entry, Floats, RankedRow, Shape, TableRow, Trial, Tried, TunedTable, Way, way_of

# By leaving out recorded shapes, and whole samples of them (benchmarks/cross_validate.py).
REACH = 8.0  # doublings within which values are alike
NOISE = 0.15  # of a value at one shape, in what values at far shapes differ by: the library's own jumps, mostly
USUAL, PRIOR = 0.3, 4.0  # of logarithms far apart: standard deviation, and how many values it counts as
CAUTION = 0.5  # standard deviations that are taken off the logarithm of a forecast speed of a kernel of ours
SURE, MAY_LOSE = 1.75, 0.95  # and with so many it must still be at so much of the library's, to be taken at all
SHAPES, POINTS = 32, 16  # of the nearest shapes so many are looked at, and of a kernel so many of them
SHARE = 0.25  # of the shapes there at which the library was measured
TRIED = 8  # the nearest shapes at which a config was as exact as the library, but for one, if it counts
EXACT = 0.62  # and so much of the library's error is the most it should have: that falls where the library cuts k
EXACT_REACH = 4.0  # doublings within which that is alike
MIN_ERROR = 1e-3  # over the library's: what is exact has no logarithm
PROMISING, MAX_PROMISING = 0.8, 5  # of the fastest's speed; so many are worth a probe
# Of what is forecast as one: a kernel in whichever config was best, or a config of one that was tried in each.
_Key = tuple[str, ConfigItems]


@dataclass(frozen=True, slots=True)
class SpeedPoint:
    """A kernel at a measured shape."""

    kernel: Kernel
    config: TileConfig  # as it suits the product at hand
    at: TableRow
    place: Place  # of that shape, in doublings

    @property
    def row(self) -> RankedRow:
        return self.at.row

    @property
    def entry(self) -> Entry:
        return self.at.entry


_Together = dict[_Key, list[SpeedPoint]]


@dataclass(frozen=True, slots=True)
class Forecast:
    """The expected speed of a kernel. `point` is the nearest shape on which it is based."""

    point: SpeedPoint
    speed: float  # over the fastest library's
    us: float  # its time
    points: int
    doubt: float = 0.0  # standard deviation of the logarithm of `speed`; 0 where it was measured

    @property
    def cautious(self) -> float:
        """The speed with what a guess may cost taken off; a library adapts to a shape."""
        return self.speed * self.caution

    @property
    def is_gamble(self) -> bool:
        """Whether it may well be slower than the library, whatever it gains on average."""
        is_ours = not isinstance(self.point.kernel, LibraryKernel)
        return is_ours and self.speed * exp(-SURE * self.doubt) < MAY_LOSE

    @property
    def caution(self) -> float:
        return 1.0 if isinstance(self.point.kernel, LibraryKernel) else exp(-CAUTION * self.doubt)


@dataclass(frozen=True, slots=True)
class _Time:
    """The expected time of a kernel."""

    point: SpeedPoint
    log_us: float  # logarithm of microseconds
    points: int
    variance: float  # of that; 0 where it was measured
    goes_like: Kernel  # whose cost model it has: its own, or the library's
    errors: Mapping[Place, float] = field(default_factory=dict)  # of that model, where the kernel was measured nearby


def forecasts(near: Nearby, fit: Mapping[str, Kernel], problem: Problem, device: DeviceTraits) -> tuple[Forecast, ...]:
    """One for each kernel that was measured at any of the shapes nearby."""
    best: dict[str, Forecast] = {}
    here = place_of(problem, near.accuracy)
    points = _points(near, fit, problem, device)
    exact = {key: found for key, found in points.items() if _is_as_exact(found, problem)}
    for one in _speeds(exact, near.table, problem, here, device):
        name = one.point.kernel.name
        if name not in best or one.cautious > best[name].cautious:
            best[name] = one
    return tuple(best.values())


def promising(near: Nearby, fit: Mapping[str, Kernel], problem: Problem, device: DeviceTraits) -> tuple[Forecast, ...]:
    """The kernels that may well be fastest, and each config of emulated kernels, whether or not it should be as
    accurate as the library.
    """
    together = _points(near, fit, problem, device)
    here = place_of(problem, near.accuracy)
    found = sorted(_speeds(together, near.table, problem, here, device), key=lambda one: -one.speed)
    return tuple(one for one in found[:MAX_PROMISING] if one.speed >= PROMISING * found[0].speed)


def _speeds(
    together: _Together, table: TunedTable, problem: Problem, here: Place, device: DeviceTraits
) -> Iterator[Forecast]:
    """The forecast for each kernel, or config, relative to the library."""
    if not together:
        return
    libraries = [points for points in together.values() if isinstance(points[0].kernel, LibraryKernel)]
    min_points = max(map(len, libraries), default=0) * SHARE
    known = max(libraries, key=len)[0].kernel if libraries else None
    times = []
    for points in together.values():
        # A kernel without a cost model of its own that was left out of most measurements nearby is not forecast.
        kernel = points[0].kernel
        if len(points) >= min_points or cost_model_of(table, problem.dtype, kernel, known).kernel is kernel:
            times.append(_time(points, known, table, problem, here))
    library = _library_of(times)
    for one in times:
        gain, doubt = _halved(one.point, problem, device), sqrt(_variance_of_speed(one, library, here))
        yield Forecast(one.point, exp(library.log_us - one.log_us) * gain, exp(one.log_us) / gain, one.points, doubt)


def _variance_of_speed(one: _Time, library: _Time, here: Place) -> float:
    """The variance of the logarithm of the speed relative to the library. If a kernel has the library's cost
    model, uncertainty about that model cancels."""
    shared = [place for place in one.errors if place in library.errors]
    if one.goes_like is not library.goes_like or not shared:
        return one.variance + library.variance
    return _interpolated(tuple(shared), [one.errors[place] - library.errors[place] for place in shared], here)[1]


def _library_of(times: Sequence[_Time]) -> _Time:
    """The library's fastest entry; where nothing was measured, the tuned one, since that tries what others take. If
    there is none, the fastest kernel."""
    libraries = [(one, one.point.kernel) for one in times if isinstance(one.point.kernel, LibraryKernel)]
    tuned = [one for one, kernel in libraries if one.variance and kernel.is_tuned]
    return min(tuned or [one for one, _ in libraries] or times, key=lambda one: one.log_us)


def _nearest(entries: Iterable[Entry]) -> tuple[tuple[Entry, ...], ...]:
    """The entries of each of the nearest shapes, in several classes."""
    by_shape: dict[Shape, tuple[Entry, ...]] = {}
    for entry in entries:
        if entry.shape not in by_shape and len(by_shape) == SHAPES:
            break
        by_shape[entry.shape] = (*by_shape.get(entry.shape, ()), entry)
    return tuple(by_shape.values())


def _points(near: Nearby, fit: Mapping[str, Kernel], problem: Problem, device: DeviceTraits) -> _Together:
    """The measurements of each kernel, the nearest first."""
    points: _Together = {}
    suiting: dict[Tried, tuple[TileConfig, list[SpeedPoint]] | None] = {}
    ways: dict[Tried, Way] = {}
    for together in _nearest(near.entries):
        place = place_of(together[0].problem, near.accuracy)
        for at in (row for entry in together for row in _rows(entry, fit, problem, ways)):
            kernel = fit[at.tried[0]]
            if at.tried not in suiting:
                config = suited(kernel, at.row.config, at.entry.problem, problem, device)
                if config is None:
                    suiting[at.tried] = None
                else:
                    key = kernel.name, items(config) if isinstance(at.row, Trial) else ()
                    suiting[at.tried] = config, points.setdefault(key, [])
            suits = suiting[at.tried]
            if suits is not None and len(suits[1]) < POINTS:
                suits[1].append(SpeedPoint(kernel, suits[0], at, place))
    return points


def _is_as_exact(points: list[SpeedPoint], problem: Problem) -> bool:
    """Whether a config that was tried at these shapes, the nearest first, should be no less exact than the library."""
    errors = [point.row.error_of_baseline for point in points if isinstance(point.row, Trial)]
    if not errors:  # its products are of the type itself
        return True
    known = [log(max(error, MIN_ERROR)) for error in errors if error is not None]
    if len(known) < len(errors) or sum(error > 0.0 for error in known[:TRIED]) > 1:
        return False
    places = tuple(_depth(point.entry.problem) for point in points)
    return _interpolated(places, known, _depth(problem), EXACT_REACH)[0] <= log(EXACT)


def _depth(problem: Problem) -> Place:
    """What the number of parts that a library cuts k into depends on: how much of a device its tiles fill, and k."""
    return log2(problem.m * problem.n * problem.batch), log2(problem.k)


def _rows(entry: Entry, fit: Mapping[str, Kernel], problem: Problem, ways: dict[Tried, Way]) -> Iterator[TableRow]:
    """What the entry says of suitable kernels.

    At another shape, a config that was tried counts only if the kernel has the same passes there as for this product:
    small products are computed without the other type. `ways` keeps the passes for this product.
    """
    is_of_it = entry.is_of(problem)
    for at in entry.ranked:
        if (kernel := fit.get(at.tried[0])) is not None and (is_of_it or kernel.emulated_with is None):
            yield at
    for at in () if is_of_it else entry.tried:
        if at.tried[0] not in fit:
            continue
        if at.tried not in ways:
            ways[at.tried] = way_of(at.row.kernel, at.row.config, problem)
        if at.way == ways[at.tried]:
            yield at


def _time(points: list[SpeedPoint], library: Kernel | None, table: TunedTable, problem: Problem, here: Place) -> _Time:
    """The forecast time of a kernel; `points` are its measurements, the nearest first."""
    nearest = points[0]
    if nearest.place == here:
        return _Time(nearest, log_us_of(nearest.row, nearest.entry), 1, 0.0, nearest.kernel)
    model = cost_model_of(table, problem.dtype, nearest.kernel, library)
    beside = [model.errors[each.at] for each in points]
    places = tuple(each.place for each in points)
    error, variance = _interpolated(places, beside, here)
    log_us, of_model = model.log_us(nearest.config, whole(problem))
    errors = dict(zip(places, beside, strict=True))
    return _Time(nearest, log_us + error, len(points), variance + of_model, model.kernel, errors)


def _interpolated(
    places: tuple[Place, ...], values: list[float], here: Place, reach: float = REACH
) -> tuple[float, float]:
    """The value at `here`, from values at these places, and its variance, by ordinary kriging.

    The variance of values is estimated from these values (the likelihood's maximum), as if PRIOR more had had the
    variance USUAL².
    """
    weights, share, form = _weights(places, here, reach)
    given = np.array(values)
    variance = (float(given @ form @ given) + PRIOR * USUAL**2) / (len(values) - 1 + PRIOR)
    return float(weights @ given), variance * share


@lru_cache(maxsize=256)
def _weights(measured: tuple[Place, ...], here: Place, reach: float) -> tuple[Floats, float, Floats]:
    """The weight of each measured shape, 1 in all; the variance of the interpolated value, relative to that of values
    at shapes far apart; and the quadratic form that gives the latter. Shared by kernels that were measured at the same
    shapes."""
    count, at = len(measured), np.array([*measured, here])
    apart = np.linalg.norm(at[:, np.newaxis] - at, axis=-1) * (sqrt(3) / reach)
    alike = (1 + apart) * np.exp(-apart)  # Matérn's, smooth once
    system = np.ones((count + 1, count + 1))
    system[:count, :count] = alike[:count, :count] + NOISE**2 * np.eye(count)
    system[count, count] = 0.0
    inverse: Floats = np.asarray(np.linalg.inv(system), np.float64)
    right = np.append(alike[count, :count], 1.0)
    found: Floats = inverse @ right
    return found[:count], max(1 - float(found @ right), 0.0) + NOISE**2, inverse[:count, :count]


def _halved(point: SpeedPoint, problem: Problem, device: DeviceTraits) -> float:
    """The gain from computing only one triangle of a symmetric product."""
    if not problem.symmetric or not isinstance(point.kernel, CudaKernel):
        return 1.0
    return triangle_gain(point.kernel, point.config, problem, device)
