"""Dips, peaks and falls of a curve, found by a rule instead of by eye.

The rule, on log GFLOPS over log N. A point is a **dip** if it lies 5 % or more below the line between its neighbours
and is level (within 5 %) neither with the one after, which would be a fall, nor with the one before, unless that is
more than twice as far as the one after. An end has one neighbour, and is a dip if it lies 5 % or more below that at
less than 10 % off its size. The deepest is set aside and what is left is judged anew, until there is none. Then a point
is a **peak** if it lies 5 % or more above both neighbours, the highest first: a dip does not make a peak of its
neighbour, and curves that flatten, which lie above such lines everywhere, have none. What remains is the curve's
course; where it drops by 5 % or more from a size to the next and no later size comes back, that is a **fall**.
Where a point's interval is known, the end of it that is nearer to the neighbours counts, so noise is no dip.

A disturbed point (`analysis/condition.py`) is set aside before all others, so that no neighbour is compared with it. It
can still be a dip or a peak, if it lies off the line; `explain` then begins with the disturbance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Literal

from analysis.curves import Curve, speed
from analysis.measurement import Measurement

FeatureKind = Literal["dip", "peak", "fall"]
Judge = Callable[[Measurement | None, Measurement, Measurement | None], float | None]
STEP = log(1.05)
NEAR = log(1.10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A point off the curve's course, the point that it is compared with, and its GFLOPS over the expected ones."""

    kind: FeatureKind
    point: Measurement
    reference: Measurement  # the size nearest to it that lies on the course; the one before, for a fall
    ratio: float  # a lower bound of the deviation: from the end of the interval that is nearer to the course
    median_ratio: float


def features(curve: Curve) -> tuple[Feature, ...]:
    """Features in order of size. `curve` must have rising sizes, as `curves` returns them."""
    course, found = _without_disturbed(curve.points)
    kinds: tuple[tuple[FeatureKind, Judge], ...] = (("dip", _drop), ("peak", _rise))
    for kind, judge in kinds:
        found += [(kind, point, log_ratio) for point, log_ratio in _set_aside(course, judge)]
    off = [_feature(kind, point, course, log_ratio) for kind, point, log_ratio in found if course]
    return tuple(sorted((*off, *_falls(course)), key=lambda feature: feature.point.size))


def _without_disturbed(
    points: Sequence[Measurement],
) -> tuple[list[Measurement], list[tuple[FeatureKind, Measurement, float]]]:
    """The clean points, and the disturbed ones that lie off the line between clean ones."""
    course = [point for point in points if point.condition.is_clean]
    found: list[tuple[FeatureKind, Measurement, float]] = []
    for point in points:
        if point.condition.is_clean or not course:
            continue
        before = max((one for one in course if one.size < point.size), key=_x, default=None)
        after = min((one for one in course if one.size > point.size), key=_x, default=None)
        only = before or after or course[0]
        line = _line(before, point, after) if before and after else _y(only)
        if (drop := _top(point) - line) <= -STEP:
            found.append(("dip", point, drop))
        elif (rise := _bottom(point) - line) >= STEP:
            found.append(("peak", point, rise))
    return course, found


def _feature(kind: FeatureKind, point: Measurement, course: Sequence[Measurement], log_ratio: float) -> Feature:
    nearer_end = _top(point) if log_ratio < 0 else _bottom(point)
    return Feature(
        kind=kind,
        point=point,
        reference=_nearest(course, point),
        ratio=exp(log_ratio),
        median_ratio=exp(log_ratio + _y(point) - nearer_end),
    )


def _set_aside(course: list[Measurement], judge: Judge) -> Iterator[tuple[Measurement, float]]:
    """Takes the points that are off out of the course, the one farthest off first, each with its distance in log
    GFLOPS. What is left is judged anew, which can only change for the neighbours of what was taken out."""

    def judged(place: int) -> float | None:
        before = course[place - 1] if place else None
        after = course[place + 1] if place + 1 < len(course) else None
        return judge(before, course[place], after)

    verdicts = [judged(place) for place in range(len(course))]
    while off := [(abs(verdict), -place) for place, verdict in enumerate(verdicts) if verdict is not None]:
        place = -max(off)[1]
        verdict = verdicts.pop(place)
        assert verdict is not None
        yield course.pop(place), verdict
        for near in {max(0, place - 1), min(place, len(course) - 1)} if course else ():
            verdicts[near] = judged(near)


def _drop(before: Measurement | None, point: Measurement, after: Measurement | None) -> float | None:
    """How far it lies below the line between its neighbours; None if it is not a dip."""
    if before and after:
        if any(abs(_y(point) - _y(other)) < STEP for other in _level_with(before, point, after)):
            return None
        line = _line(before, point, after)
    elif (only := before or after) and abs(_x(only) - _x(point)) <= NEAR:
        line = _y(only)
    else:
        return None
    return drop if (drop := _top(point) - line) <= -STEP else None


def _level_with(before: Measurement, point: Measurement, after: Measurement) -> list[Measurement]:
    """Neighbours at whose level a point is no dip: after a fall the curve stays low, before a rise it begins low."""
    far = _x(point) - _x(before) > 2 * (_x(after) - _x(point))
    return [after] if far else [before, after]


def _rise(before: Measurement | None, point: Measurement, after: Measurement | None) -> float | None:
    """How far it lies above both neighbours; None if it is not a peak."""
    if before is None or after is None:
        return None
    return rise if (rise := _bottom(point) - max(_y(before), _y(after))) >= STEP else None


def _line(before: Measurement, point: Measurement, after: Measurement) -> float:
    """The value of the line at the point's size. Shapes with equal numbers of operations have equal sizes."""
    span = _x(after) - _x(before)
    share = (_x(point) - _x(before)) / span if span else 0.5
    return _y(before) + share * (_y(after) - _y(before))


def _falls(course: Sequence[Measurement]) -> Iterator[Feature]:
    for place in range(1, len(course)):
        before, point = course[place - 1], course[place]
        best_after = max(_y(later) for later in course[place:])
        if _top(point) - _y(before) <= -STEP and best_after - _y(before) <= -STEP:
            near_end, median = _top(point) - _y(before), _y(point) - _y(before)
            yield Feature(kind="fall", point=point, reference=before, ratio=exp(near_end), median_ratio=exp(median))


def _nearest(course: Sequence[Measurement], point: Measurement) -> Measurement:
    return min(course, key=lambda other: abs(_x(other) - _x(point)))


def _x(point: Measurement) -> float:
    return log(point.size)


def _y(point: Measurement) -> float:
    return log(speed(point))


def _top(point: Measurement) -> float:
    return log(interval.hi) if (interval := point.gflops_interval) else _y(point)


def _bottom(point: Measurement) -> float:
    return log(interval.lo) if (interval := point.gflops_interval) else _y(point)
