"""Random products, and how what `auto` takes for each compares with the best kernel there is and the library's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from random import Random

from analysis.result_models import CaseResult, Results
from benchmarks.exactness import is_as_exact, over_library

LEAST, MOST = 32, 12_288  # of m, n and k
ODD_SHARE = 3  # one in so many shapes is odd in all its sizes; the others are even

Shape = tuple[int, int, int]


def draw(count: int, seed: int, most: int = MOST) -> tuple[Shape, ...]:
    """Distinct shapes (m, n, k), each size log-uniform from LEAST to `most`."""
    random = Random(seed)
    shapes: dict[Shape, None] = {}
    while len(shapes) < count:
        odd = len(shapes) % ODD_SHARE == 0
        m, n, k = (_size(random, most, odd=odd) for _ in range(3))
        shapes[m, n, k] = None
    return tuple(shapes)


def _size(random: Random, most: int, *, odd: bool) -> int:
    size = round(exp(random.uniform(log(LEAST), log(most))))
    if size % 2 == odd:
        return size
    return size + 1 if size < most else size - 1


@dataclass(frozen=True, slots=True)
class Choice:
    """What `auto` took for a shape, beside the fastest kernel measured there.

    Speeds are over the library's, each in the same round of the same benchmark.
    """

    shape: Shape
    kernel: str
    speed: float
    best_kernel: str
    best_speed: float  # of what auto took and of all others
    error: float | None = None  # over the library's, where the kernel makes float32 products of another type's

    @property
    def of_best(self) -> float:
        return self.speed / self.best_speed


def choices(auto: Results, others: Results) -> tuple[Choice, ...]:
    """For the shapes measured in both; `auto` is a benchmark of `best`, `others` of kernels by name. What is further
    off than the library, though taken for its equal, is no rival."""
    rivals: dict[Shape, list[CaseResult]] = {}
    errors = {case.case: case.error_vs_float64 for case in others.cases}
    for case in others.cases:
        if is_as_exact(case, errors):
            rivals.setdefault((case.m, case.n, case.k), []).append(case)
    return tuple(_choices(auto, rivals))


def _choices(auto: Results, rivals: Mapping[Shape, Sequence[CaseResult]]) -> Iterator[Choice]:
    shapes = dict.fromkeys((case.m, case.n, case.k) for case in auto.cases)
    errors = {case.case: case.error_vs_float64 for case in auto.cases}
    for shape in shapes:
        mine = [case for case in auto.cases if (case.m, case.n, case.k) == shape and _speed(case) is not None]
        # The library's own case is there as the baseline; it is what auto took where nothing else is.
        taken = next((case for case in mine if case.case != case.baseline), mine[0] if mine else None)
        rival = max(rivals.get(shape, ()), key=lambda case: _speed(case) or 0.0, default=None)
        speed, best = _speed(taken) if taken else None, _speed(rival) if rival else None
        if taken is None or rival is None or speed is None or best is None:
            continue
        faster = best > speed
        best_kernel = rival.kernel if faster else taken.kernel
        yield Choice(shape, taken.kernel, speed, best_kernel, max(speed, best), over_library(taken, errors))


def _speed(case: CaseResult) -> float | None:
    return case.fraction_of_baseline.value if case.fraction_of_baseline and case.status == "ok" else None


def geometric_mean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))
