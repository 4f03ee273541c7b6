"""Random products, and how what `auto` takes for each compares with the fastest kernel and the library."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from random import Random
from secrets import randbelow
from typing import Any

from analysis.result_models import CaseResult, Results
from benchmarks.exactness import is_as_exact, over_library
from kernels.model.numerics import DTYPE_NAMES

MIN_SIZE, MAX_SIZE = 32, 12_288  # of m, n and k
ODD_SHARE = 3  # one shape in this many has only odd sizes; the others have even ones

Shape = tuple[int, int, int]


def parser_of(description: str | None, *, shapes: int, max_size: int = MAX_SIZE) -> ArgumentParser:
    """The arguments of every run over random shapes, with the run's own defaults."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--url", help="of a running service; without it one is started")
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--dtype", default="float32", choices=DTYPE_NAMES)
    parser.add_argument("--shapes", type=int, default=shapes, help="how many are drawn")
    parser.add_argument("--least", type=int, default=MIN_SIZE, help="the smallest size")
    parser.add_argument("--most", type=int, default=max_size, help="the largest size")
    parser.add_argument("--seed", type=int, default=randbelow(2**31))
    return parser


def draw(count: int, seed: int, max_size: int = MAX_SIZE, min_size: int = MIN_SIZE) -> tuple[Shape, ...]:
    """Distinct shapes (m, n, k), each size log-uniform from `min_size` to `max_size`."""
    random = Random(seed)
    shapes: dict[Shape, None] = {}
    while len(shapes) < count:
        odd = len(shapes) % ODD_SHARE == 0
        m, n, k = (_size(random, min_size, max_size, odd=odd) for _ in range(3))
        shapes[m, n, k] = None
    return tuple(shapes)


def _size(random: Random, min_size: int, max_size: int, *, odd: bool) -> int:
    size = round(exp(random.uniform(log(min_size), log(max_size))))
    if size % 2 == odd:
        return size
    return size + 1 if size < max_size else size - 1


@dataclass(frozen=True, slots=True)
class AutoChoice:
    """What `auto` took for a shape, with the fastest kernel measured there.

    Speeds are over the library's, each in the same round of the same benchmark.
    """

    shape: Shape
    kernel: str
    speed: float
    best_kernel: str
    best_speed: float  # of all kernels, including the one that auto took
    error: float | None = None  # over the library's, if the kernel makes float32 products from another type's

    @property
    def of_best(self) -> float:
        return self.speed / self.best_speed


def by_tables(auto: Results) -> dict[Shape, CaseResult]:
    """What was taken for each shape in a benchmark of `best`."""
    taken: dict[Shape, CaseResult] = {}
    for case in auto.cases:
        # The library's own case is there as the baseline; it is what auto took where nothing else is.
        if _speed(case) is not None and (_shape(case) not in taken or case.case != case.baseline):
            taken[_shape(case)] = case
    return taken


def as_served(records: Iterable[Mapping[str, Any]], measured: Iterable[Results]) -> dict[Shape, CaseResult]:
    """What the service took for a product of each shape, as measured in the same config."""
    cases = {_asked(_shape(case), case.kernel, case.config): case for run in measured for case in run.cases}
    served = {(record["m"], record["n"], record["k"]): (record["kernel"], record["config"]) for record in records}
    measured_cases = {shape: cases.get(_asked(shape, kernel, config)) for shape, (kernel, config) in served.items()}
    return {shape: case for shape, case in measured_cases.items() if case is not None and _speed(case) is not None}


def not_measured(
    records: Iterable[Mapping[str, Any]], measured: Iterable[Results]
) -> dict[tuple[str, tuple[tuple[str, int], ...]], list[Shape]]:
    """Kernels and configs that the service took and that were not measured, each with its shapes."""
    known = {_asked(_shape(case), case.kernel, case.config) for run in measured for case in run.cases}
    missing: dict[tuple[str, tuple[tuple[str, int], ...]], list[Shape]] = {}
    for record in records:
        shape, kernel, config = asked = _asked(
            (record["m"], record["n"], record["k"]), record["kernel"], record["config"]
        )
        if asked not in known:
            missing.setdefault((kernel, config), []).append(shape)
    return missing


def choices(
    taken: Mapping[Shape, CaseResult], others: Results, besides: Iterable[Results] = ()
) -> tuple[AutoChoice, ...]:
    """Choices for the shapes at which something was taken and `others` has rivals; those in `besides` count too. A
    kernel that should be as exact as the library and is not does not count as a rival."""
    rivals: dict[Shape, list[CaseResult]] = {}
    errors: dict[str, float | None] = {}
    for run in (others, *besides):
        of_run = {case.case: case.error_vs_float64 for case in run.cases}
        errors = of_run | errors
        for case in run.cases:
            if is_as_exact(case, of_run) and _speed(case) is not None:
                rivals.setdefault(_shape(case), []).append(case)
    held = {_shape(case) for case in others.cases} & rivals.keys()
    return tuple(_choice(shape, case, rivals[shape], errors) for shape, case in taken.items() if shape in held)


def _choice(
    shape: Shape, taken: CaseResult, rivals: Sequence[CaseResult], errors: Mapping[str, float | None]
) -> AutoChoice:
    speed = _speed(taken) or 0.0
    best = max(rivals, key=lambda case: _speed(case) or 0.0)
    best = best if (_speed(best) or 0.0) > speed else taken
    return AutoChoice(shape, taken.kernel, speed, best.kernel, _speed(best) or 0.0, over_library(taken, errors))


def _shape(case: CaseResult) -> Shape:
    return case.m, case.n, case.k


def _asked(shape: Shape, kernel: str, config: Mapping[str, int]) -> tuple[Shape, str, tuple[tuple[str, int], ...]]:
    return shape, kernel, tuple(sorted(config.items()))


def _speed(case: CaseResult) -> float | None:
    return case.fraction_of_baseline.value if case.fraction_of_baseline and case.status == "ok" else None


def geometric_mean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))
