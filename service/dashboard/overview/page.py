"""`/`: the overview: health, what ran where, what failed and why, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from jobs.fleet.history import SERIES, Sample, Series
from jobs.fleet.workers import WorkerInfo
from jobs.ledger.interface import JobFilter, QueueDepth
from jobs.models import JobRecord
from jobs.queue import QUEUES
from jobs.states import JobState
from service.context import Context, context_of, owner_of
from service.dashboard.overview.failures import FailureGroup, failures_of
from service.dashboard.overview.health import Finding, findings_of, headline
from service.dashboard.overview.timeline import Timeline, timeline_of
from service.dashboard.overview.trends import WORDS, rows_of, series_of, trends_of
from service.dashboard.render import page
from service.dashboard.sign_in import sign_in_page
from service.http.access import role_of
from service.http.security import FRONT
from service.keys import Role
from service.operations.dead_letters import MAX_SHOWN

LAST_JOBS = 10
USUAL, FIRST = SERIES["1h"], SERIES["5m"]

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Overview:
    """The data of the overview, read in one worker-thread call."""

    workers: Sequence[WorkerInfo]  # those that take jobs
    findings: Sequence[Finding]
    depths: Mapping[str, QueueDepth]
    counts: Mapping[JobState, int]
    jobs: Sequence[JobRecord]
    running: Mapping[str, JobRecord]  # the reader's own jobs that are running
    samples: Sequence[Sample]
    timeline: Timeline
    failures: Sequence[FailureGroup]


def look(context: Context, owner: str, series: Series, now: datetime) -> Overview:
    """Raises StoreUnavailable."""
    known = context.fleet.all()
    workers = [worker for worker in known if worker.serves]
    queues = {name for worker in known for name in (worker.queue, worker.bench_queue) if name}
    depths = context.ledger.depths(sorted(queues.union(QUEUES, context.ledger.queues())))
    last = context.ledger.list(JobFilter(owner), limit=LAST_JOBS)
    running = context.ledger.list(JobFilter(owner, JobState.RUNNING), limit=LAST_JOBS)
    failures = failures_of(context.ledger, owner, series.window_s, now)
    paused = [*(["all"] if context.pause.is_on() else []), *context.pause.queues()]
    dead = len(context.ledger.dead_letters(owner=owner, limit=MAX_SHOWN))
    return Overview(
        workers,
        findings_of(known, depths, paused, dead, sum(group.count for group in failures)),
        depths,
        context.ledger.counts(),
        [job.record for job in last.jobs],
        {job.id: job.record for job in running.jobs},
        context.history.read(series),
        timeline_of(context.ledger, owner, workers, series.window_s, now),
        failures,
    )


def _usual(context: Context) -> Series:
    """The default period: an hour, once there are data for it."""
    return USUAL if len(context.history.read(USUAL)) > 1 else FIRST


@router.get(FRONT)
async def overview(request: Request, over: Annotated[str, Query(max_length=20)] = "") -> Response:
    if request.scope["state"].get("is_stranger"):
        return sign_in_page(request, FRONT)
    context, now = context_of(request), datetime.now(UTC)
    series = series_of(over) if over else await context.call(_usual, context)
    seen = await context.call(look, context, owner_of(request), series, now)
    rows = rows_of(seen.samples, series)
    return page(
        request,
        "overview.html",
        seen=seen,
        workers=seen.workers,
        depths=seen.depths,
        counts={} if request.scope["state"].get("signed_in") else {s.value: n for s, n in seen.counts.items()},
        jobs=seen.jobs,
        running=seen.running,
        sees_all=role_of(request) is Role.OPERATOR,
        health=headline(seen.findings),
        trends=trends_of(rows, series, now),
        rows=rows,
        over=series.name,
        times=WORDS,
        step_s=series.step_s,
        version=request.app.version,
    )
