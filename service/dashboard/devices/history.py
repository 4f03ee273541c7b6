"""`/ui/devices/history`: one device's cases from benchmark to benchmark, with marks where they changed lastingly."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from analysis.comparison.compare import Run, case_of, run_of
from analysis.comparison.history import FENCE, MIN_RUNS, HistoryPoint, history
from analysis.measurement import Measurement
from jobs.ledger.interface import JobFilter
from jobs.models import Job
from jobs.states import JobState
from service.benchmarks.replies import results_of
from service.context import Context, context_of, owner_of
from service.dashboard.render import page

MAX_RUNS = 30  # newest benchmarks of the device
PAGE_JOBS, MAX_LOOKS = 100, 5  # ledger reads per page: benchmarks of other devices are in between
MAX_CASES = 200
WIDTH, HEIGHT, EDGE = 160.0, 32.0, 4.0  # of a line, in pixels

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class HistoryDot:
    """A run's point in the line of a case. Higher is faster."""

    x: float
    y: float
    job: str
    point: HistoryPoint


@dataclass(frozen=True, slots=True)
class Story:
    """The history of a case over the runs that have it, oldest first."""

    measurement: Measurement  # the newest
    dots: tuple[HistoryDot, ...]

    @property
    def marked(self) -> tuple[HistoryDot, ...]:
        return tuple(dot for dot in self.dots if dot.point.mark)

    @property
    def line(self) -> str:
        """The points of an SVG polyline."""
        return " ".join(f"{dot.x:.1f},{dot.y:.1f}" for dot in self.dots)


@router.get("/ui/devices/history")
async def device_history(request: Request, device: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The history page. Without `device`, that of the newest benchmark."""
    context, owner = context_of(request), owner_of(request)
    known = await context.call(_known_devices, context, owner)
    chosen = device or next(iter(known), "")
    jobs = await context.call(_benchmarks, context, owner, chosen)
    stories = await context.call(_stories, context, jobs)
    return page(
        request,
        "devices_history.html",
        device=chosen,
        others=[name for name in known if name != chosen],
        changed=sum(bool(story.marked) for story in stories),
        runs=len(jobs),
        stories=stories[:MAX_CASES],
        left_out=max(0, len(stories) - MAX_CASES),
        min_runs=MIN_RUNS,
        fence=FENCE,
        size=(WIDTH, HEIGHT),
    )


def _known_devices(context: Context, owner: str) -> Sequence[str]:
    """The devices of the latest visible benchmarks, newest first; then those of live workers."""
    found = context.ledger.list(JobFilter(owner, JobState.SUCCEEDED, "benchmark"), limit=PAGE_JOBS).jobs
    measured = [job.record.device for job in found]
    return list(dict.fromkeys(filter(None, (*measured, *(worker.device.name for worker in context.fleet.all())))))


def _benchmarks(context: Context, owner: str, device: str) -> Sequence[Job]:
    """The device's visible benchmarks, oldest first."""
    return list(islice(_newest(context, owner, device), MAX_RUNS))[::-1]


def _newest(context: Context, owner: str, device: str) -> Iterator[Job]:
    where = JobFilter(owner, JobState.SUCCEEDED, "benchmark")
    cursor: str | None = None
    for _ in range(MAX_LOOKS):
        found = context.ledger.list(where, limit=PAGE_JOBS, cursor=cursor)
        yield from (job for job in found.jobs if job.record.device == device)
        cursor = found.cursor
        if cursor is None:
            return


def _stories(context: Context, jobs: Sequence[Job]) -> list[Story]:
    """The histories of all cases: those with marks first, then those of the newest run."""
    taken: dict[Hashable, list[Run]] = {}
    for job in jobs:
        run = run_of(results_of(context, job))
        for case in {case_of(one): one for one in run.measurements}.values():
            taken.setdefault(case_of(case), []).append(
                Run(name=job.id, measurements=[case], environment=run.environment)
            )
    stories = [story for runs in taken.values() if (story := _story(runs)) is not None]
    newest = jobs[-1].id if jobs else ""
    return sorted(stories, key=lambda story: (not story.marked, story.dots[-1].job != newest))


def _story(runs: Sequence[Run]) -> Story | None:
    """A case's history; None if no run has a figure."""
    points = history(runs, runs[0].measurements[0])
    if not points:
        return None
    speeds = [point.measurement.gflops or 0.0 for point in points]
    top = max(speeds) or 1.0
    step = (WIDTH - 2 * EDGE) / max(1, len(points) - 1)
    dots = (
        HistoryDot(EDGE + step * at, EDGE + (HEIGHT - 2 * EDGE) * (1 - speed / top), point.run, point)
        for at, (point, speed) in enumerate(zip(points, speeds, strict=True))
    )
    return Story(points[-1].measurement, tuple(dots))
