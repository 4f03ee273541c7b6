"""A benchmark on its job's page: its results so far, and its answer once it is finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.condition import condition
from jobs.benchmarks.records import CaseRecord
from kernels.catalog import BY_NAME
from kernels.model.kernel import LibraryKernel
from service.dashboard.charts.telemetry import HEIGHT, MARGIN, WIDTH
from service.dashboard.words import figure, percent, shape

LAST_CASES = 12


@dataclass(frozen=True, slots=True)
class FoundSoFar:
    """The results so far. `points`: speeds in the order they were measured, as points of an SVG line."""

    last: Sequence[CaseRecord]  # newest first
    by_status: Mapping[str, int]
    points: str
    low: float
    high: float


def found_so_far(records: Sequence[CaseRecord]) -> FoundSoFar | None:
    """A summary of the measurements so far; None before the first one."""
    if not records:
        return None
    speeds = [record.gflops for record in records if record.status == "ok" and record.gflops is not None]
    low, high = (min(speeds), max(speeds)) if speeds else (0.0, 0.0)
    step = WIDTH / max(1, len(speeds) - 1)
    points = " ".join(f"{step * at:.1f},{_height(speed, high):.1f}" for at, speed in enumerate(speeds))
    counted: Counter[str] = Counter(record.status for record in records)
    return FoundSoFar([*reversed(records[-LAST_CASES:])], counted, points if len(speeds) > 1 else "", low, high)


def _height(speed: float, high: float) -> float:
    return HEIGHT - MARGIN - speed / high * (HEIGHT - 2 * MARGIN) if high else HEIGHT - MARGIN


def doubt(record: CaseRecord) -> str:
    """The reason to doubt a record's figures; empty if there is none."""
    kind = condition(record).kind
    return "" if kind in ("clean", "no figure") else kind


def answer_of(records: Sequence[CaseRecord]) -> str | None:
    """A sentence that names the fastest kernel at the largest product. Doubtful measurements do not count; None if
    there are no others.
    """
    sound = [one for one in records if one.status == "ok" and one.gflops and not doubt(one)]
    if not sound:
        return None
    max_flops = max(one.flops for one in sound)
    there = [one for one in sound if one.flops == max_flops]
    best = max(there, key=lambda one: one.gflops or 0.0)
    where = f"{best.dtype} {shape((best.m, best.n, best.k))}"
    is_largest = all(one.flops <= max_flops for one in records if one.status == "ok")
    largest = "the largest product" if is_largest else "the largest product with a clean figure"
    said = f"Fastest at {where}, {largest}: {best.kernel} with {figure(best.gflops)} GFLOPS"
    libraries = [
        one for one in there if isinstance(BY_NAME.get(one.kernel), LibraryKernel) and one.kernel != best.kernel
    ]
    if libraries and best.gflops:
        library = max(libraries, key=lambda one: one.gflops or 0.0)
        said += f", {percent(best.gflops / (library.gflops or 1.0))} of {library.kernel}"
    left_out = sum(one.status == "ok" and bool(doubt(one)) for one in records)
    left = f" {left_out} measurement{'s' if left_out > 1 else ''} disturbed or not converged: left out."
    return f"{said}.{left if left_out else ''}"
