"""Forecasts the speed of kernels for a product that was not measured, from nearby shapes that were.

Of each kernel, the library's among them, the time is forecast. What its work should take (tiles, waves, passes over
memory) is arithmetic (`cost_model/model.py`). Measured times differ from that by something that is alike at nearby
shapes (`distance.py`). It is interpolated by kriging (`cost_model/kriging.py`), so a forecast has a standard deviation,
and a kernel of ours counts by the lower end of its speed over the library's: a library adapts to a shape, and its tuned
entry is there wherever ours would be a gamble.

A kernel that chooses its own config by what each should take chooses it anew.

A kernel that makes its products of another type's is not as exact as the library everywhere. Here its configs stand
for themselves, and one counts only if its error over the library's should be well below one here, by kriging too, and
was so at the nearest shapes that it was tried at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, log, sqrt

from kernels.model.kernel import CudaKernel, DeviceTraits, Kernel, LibraryKernel
from kernels.model.numerics import Problem
from kernels.model.triangle import whole
from kernels.selection.cost_model.kriging import Kriging
from kernels.selection.cost_model.model import CostModel, cost_model_of, log_us_of
from kernels.selection.distance import depth_of, place_of
from kernels.selection.nearby import Nearby
from kernels.selection.points import Points, SpeedPoint, points_at, shapes_of
from kernels.selection.triangles import triangle_gain
from kernels.selection.tuned import Trial

# By leaving out recorded shapes, and whole samples of them (benchmarks/cross_validate.py).
REACH = 8.0  # doublings within which values are alike
CAUTION = 0.5  # standard deviations that are taken off the logarithm of a forecast speed of a kernel of ours
SURE, MAY_LOSE = 1.75, 0.95  # and with so many it must still be at so much of the library's, to be taken at all
SHARE = 0.25  # of the shapes there at which the library was measured
TRIED = 8  # the nearest shapes at which a config was as exact as the library, but for one, if it counts
LOG_EXACT = log(0.62)  # and so much of the library's error is the most it should have: it falls where k is cut
EXACT_REACH = 4.0  # doublings within which that is alike
PROMISING, MAX_PROMISING = 0.8, 5  # of the fastest's speed; so many are worth a probe


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
    errors: Mapping[int, float] = field(default_factory=dict)  # of that model, by the numbers of shapes nearby


def forecasts(near: Nearby, fit: Mapping[str, Kernel], problem: Problem, device: DeviceTraits) -> tuple[Forecast, ...]:
    """One for each kernel that was measured at any of the shapes nearby."""
    best: dict[str, Forecast] = {}
    here = _Here(near, fit, problem, device)
    for one in here.speeds([points for points in here.points if here.is_as_exact(points)]):
        name = one.point.kernel.name
        if name not in best or one.cautious > best[name].cautious:
            best[name] = one
    return tuple(best.values())


def promising(near: Nearby, fit: Mapping[str, Kernel], problem: Problem, device: DeviceTraits) -> tuple[Forecast, ...]:
    """The kernels that may well be fastest, and each config of emulated kernels, whether or not it should be as
    accurate as the library.
    """
    here = _Here(near, fit, problem, device)
    found = sorted(here.speeds(here.points), key=lambda one: -one.speed)
    return tuple(one for one in found[:MAX_PROMISING] if one.speed >= PROMISING * found[0].speed)


class _Here:
    """One product among the measured shapes near it."""

    def __init__(self, near: Nearby, fit: Mapping[str, Kernel], problem: Problem, device: DeviceTraits) -> None:
        self._table, self._problem, self._device = near.table, problem, device
        self._shapes = shapes_of(near)
        self.points = points_at(self._shapes, fit, problem, device)
        self._here = place_of(problem, near.accuracy)
        self._places = [together[0].place[: len(self._here)] for together in self._shapes]
        self._times = Kriging(self._places, self._here, REACH)

    @cached_property
    def _errors(self) -> Kriging:
        """Of what depends on depth alone."""
        return Kriging([together[0].depth for together in self._shapes], depth_of(self._problem), EXACT_REACH)

    def is_as_exact(self, points: Points) -> bool:
        """Whether a config that was tried at these shapes should be no less exact than the library."""
        if not isinstance(points.nearest.row, Trial):  # its products are of the type itself
            return True
        known = [at.log_error for at in points.rows if at.log_error is not None]
        if len(known) < len(points.rows) or sum(error > 0.0 for error in known[:TRIED]) > 1:
            return False
        return self._errors.value(tuple(points.shapes), known) <= LOG_EXACT

    def speeds(self, together: Sequence[Points]) -> Iterator[Forecast]:
        """The forecast for each kernel, or config, relative to the library."""
        if not together:
            return
        libraries = [points for points in together if isinstance(points.kernel, LibraryKernel)]
        min_points = max((len(points.rows) for points in libraries), default=0) * SHARE
        known = max(libraries, key=lambda points: len(points.rows)).kernel if libraries else None
        times = []
        for points in together:
            # A kernel without a cost model of its own that was left out of most measurements nearby is not forecast.
            if len(points.rows) >= min_points or self._model(points, known).kernel is points.kernel:
                times.append(self._time(points, known))
        library = _library_of(times)
        for one in times:
            gain, doubt = _halved(one.point, self._problem, self._device), sqrt(self._variance_of_speed(one, library))
            speed, us = exp(library.log_us - one.log_us) * gain, exp(one.log_us) / gain
            yield Forecast(one.point, speed, us, one.points, doubt)

    def _model(self, points: Points, library: Kernel | None) -> CostModel:
        return cost_model_of(self._table, self._problem.dtype, points.kernel, library)

    def _time(self, points: Points, library: Kernel | None) -> _Time:
        """The forecast time of a kernel."""
        nearest = points.nearest
        if self._places[points.shapes[0]] == self._here:
            return _Time(nearest, log_us_of(nearest.row, nearest.entry), 1, 0.0, nearest.kernel)
        model, shapes = self._model(points, library), tuple(points.shapes)
        beside = [model.errors[at] for at in points.rows]
        error, variance = self._times.value(shapes, beside), self._times.variance(shapes, beside)
        log_us, of_model = model.log_us(nearest.config, whole(self._problem))
        errors = dict(zip(shapes, beside, strict=True))
        return _Time(nearest, log_us + error, len(beside), variance + of_model, model.kernel, errors)

    def _variance_of_speed(self, one: _Time, library: _Time) -> float:
        """The variance of the logarithm of the speed relative to the library. If a kernel has the library's cost
        model, uncertainty about that model cancels."""
        is_like = one.goes_like is library.goes_like
        shared = tuple(shape for shape in one.errors if shape in library.errors) if is_like else ()
        if not shared:
            return one.variance + library.variance
        return self._times.variance(shared, [one.errors[shape] - library.errors[shape] for shape in shared])


def _library_of(times: Sequence[_Time]) -> _Time:
    """The library's fastest entry; where nothing was measured, the tuned one, since that tries what others take. If
    there is none, the fastest kernel."""
    libraries = [(one, one.point.kernel) for one in times if isinstance(one.point.kernel, LibraryKernel)]
    tuned = [one for one, kernel in libraries if one.variance and kernel.is_tuned]
    return min(tuned or [one for one, _ in libraries] or times, key=lambda one: one.log_us)


def _halved(point: SpeedPoint, problem: Problem, device: DeviceTraits) -> float:
    """The gain from computing only one triangle of a symmetric product."""
    if not problem.symmetric or not isinstance(point.kernel, CudaKernel):
        return 1.0
    return triangle_gain(point.kernel, point.config, problem, device)
