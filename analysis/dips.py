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

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate, pairwise
from math import exp, log
from typing import Literal

from analysis.curves import Curve, speed
from analysis.measurement import Measurement

FeatureKind = Literal["dip", "peak", "fall"]
Judge = Callable[["_At | None", "_At", "_At | None"], float | None]
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


@dataclass(frozen=True, slots=True)
class _At:
    """A point in logarithms, each taken once: a long curve asks for them again and again."""

    point: Measurement
    x: float  # of the size
    y: float  # of the GFLOPS
    bottom: float  # of the ends of the GFLOPS' interval
    top: float


def _at(point: Measurement) -> _At:
    y, interval = log(speed(point)), point.gflops_interval
    bottom, top = (log(interval.lo), log(interval.hi)) if interval else (y, y)
    return _At(point, log(point.size), y, bottom, top)


def features(curve: Curve) -> tuple[Feature, ...]:
    """Features in order of size. `curve` must have rising sizes, as `curves` returns them."""
    course, found = _without_disturbed([_at(point) for point in curve.points])
    kinds: tuple[tuple[FeatureKind, Judge], ...] = (("dip", _drop), ("peak", _rise))
    for kind, judge in kinds:
        course, off = _set_aside(course, judge)
        found += [(kind, at, log_ratio) for at, log_ratio in off]
    nearest = _Nearest(course)
    off_course = [_feature(kind, at, nearest.to(at), log_ratio) for kind, at, log_ratio in found if course]
    return tuple(sorted((*off_course, *_falls(course)), key=lambda feature: feature.point.size))


def _without_disturbed(points: Sequence[_At]) -> tuple[list[_At], list[tuple[FeatureKind, _At, float]]]:
    """The clean points, and the disturbed ones that lie off the line between clean ones."""
    course = [at for at in points if at.point.condition.is_clean]
    found: list[tuple[FeatureKind, _At, float]] = []
    nearest = _Nearest(course)
    for at in points:
        if at.point.condition.is_clean or not course:
            continue
        before, after = nearest.before(at), nearest.after(at)
        only = before or after or course[0]
        line = _line(before, at, after) if before and after else only.y
        if (drop := at.top - line) <= -STEP:
            found.append(("dip", at, drop))
        elif (rise := at.bottom - line) >= STEP:
            found.append(("peak", at, rise))
    return course, found


class _Nearest:
    """Finds points by size among those of a course, whose sizes rise; of equal sizes the first."""

    def __init__(self, course: Sequence[_At]) -> None:
        self._course, self._x = course, [at.x for at in course]
        self._sizes = [at.point.size for at in course]

    def before(self, at: _At) -> _At | None:
        """The nearest smaller size."""
        return self._last_below(bisect_left(self._sizes, at.point.size))

    def after(self, at: _At) -> _At | None:
        """The nearest larger size."""
        place = bisect_right(self._sizes, at.point.size)
        return self._course[place] if place < len(self._course) else None

    def to(self, at: _At) -> _At:
        """The nearest size; of two at equal distances the smaller one."""
        place = bisect_left(self._x, at.x)
        near = [self._last_below(place), *self._course[place : place + 1]]
        return min((one for one in near if one is not None), key=lambda one: abs(one.x - at.x))

    def _last_below(self, place: int) -> _At | None:
        return self._course[bisect_left(self._x, self._x[place - 1])] if place else None


def _feature(kind: FeatureKind, at: _At, reference: _At, log_ratio: float) -> Feature:
    nearer_end = at.top if log_ratio < 0 else at.bottom
    return Feature(
        kind=kind,
        point=at.point,
        reference=reference.point,
        ratio=exp(log_ratio),
        median_ratio=exp(log_ratio + at.y - nearer_end),
    )


def _set_aside(course: Sequence[_At], judge: Judge) -> tuple[list[_At], list[tuple[_At, float]]]:
    """The course without the points that are off, and these, the one farthest off first, each with its distance in log
    GFLOPS. What is left is judged anew, which can only change for the neighbours of what was taken out."""
    count = len(course)
    before, after = list(range(-1, count - 1)), list(range(1, count + 1))  # of those left; the ends are -1 and `count`
    verdicts: list[float | None] = [None] * count
    waiting: list[tuple[float, int]] = []  # also of verdicts that no longer hold

    def judged(place: int) -> None:
        left, right = before[place], after[place]
        verdict = judge(course[left] if left >= 0 else None, course[place], course[right] if right < count else None)
        verdicts[place] = verdict
        if verdict is not None:
            heappush(waiting, (-abs(verdict), place))

    for place in range(count):
        judged(place)
    off: dict[int, float] = {}
    while waiting:
        height, place = heappop(waiting)
        verdict = verdicts[place]
        if place in off or verdict is None or -abs(verdict) != height:
            continue
        off[place] = verdict
        left, right = before[place], after[place]
        if left >= 0:
            after[left] = right
            judged(left)
        if right < count:
            before[right] = left
            judged(right)
    kept = [at for place, at in enumerate(course) if place not in off]
    return kept, [(course[place], verdict) for place, verdict in off.items()]


def _drop(before: _At | None, at: _At, after: _At | None) -> float | None:
    """How far it lies below the line between its neighbours; None if it is not a dip."""
    if before and after:
        if any(abs(at.y - other.y) < STEP for other in _level_with(before, at, after)):
            return None
        line = _line(before, at, after)
    elif (only := before or after) and abs(only.x - at.x) <= NEAR:
        line = only.y
    else:
        return None
    return drop if (drop := at.top - line) <= -STEP else None


def _level_with(before: _At, at: _At, after: _At) -> list[_At]:
    """Neighbours at whose level a point is no dip: after a fall the curve stays low, before a rise it begins low."""
    far = at.x - before.x > 2 * (after.x - at.x)
    return [after] if far else [before, after]


def _rise(before: _At | None, at: _At, after: _At | None) -> float | None:
    """How far it lies above both neighbours; None if it is not a peak."""
    if before is None or after is None:
        return None
    return rise if (rise := at.bottom - max(before.y, after.y)) >= STEP else None


def _line(before: _At, at: _At, after: _At) -> float:
    """The value of the line at the point's size. Shapes with equal numbers of operations have equal sizes."""
    span = after.x - before.x
    share = (at.x - before.x) / span if span else 0.5
    return before.y + share * (after.y - before.y)


def _falls(course: Sequence[_At]) -> Iterator[Feature]:
    best_from = list(accumulate((at.y for at in reversed(course)), max))[::-1]
    for (before, at), best_after in zip(pairwise(course), best_from[1:], strict=True):
        if at.top - before.y <= -STEP and best_after - before.y <= -STEP:
            near_end, median = at.top - before.y, at.y - before.y
            yield Feature(
                kind="fall", point=at.point, reference=before.point, ratio=exp(near_end), median_ratio=exp(median)
            )
