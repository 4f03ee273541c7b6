"""Workers over a chosen time: which job each had, when, and for how long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.fleet.workers import WorkerInfo
from jobs.ledger.interface import JobFilter, Ledger
from jobs.models import Job
from jobs.states import JobState

WIDTH = 1000.0
MIN_WIDTH = 4.0  # so that a short job is visible; adjacent shorter jobs become one block
MAX_JOBS = 200  # newest of the reader's own jobs that are examined
MAX_ROWS = 16


@dataclass(frozen=True, slots=True)
class Span:
    """A job while a worker had it."""

    job: Job
    begin: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.begin).total_seconds()


@dataclass(frozen=True, slots=True)
class Block:
    """A drawn block: one job, or several that are too short to be drawn separately."""

    spans: tuple[Span, ...]
    start: float
    width: float

    @property
    def state(self) -> str:
        """The most important state in the block."""
        states = {span.job.record.state for span in self.spans}
        order = (JobState.FAILED, JobState.RUNNING, JobState.CANCELLED)
        return next((state for state in order if state in states), JobState.SUCCEEDED).value


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One worker's."""

    worker: str
    device: str
    blocks: tuple[Block, ...]
    is_live: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    rows: tuple[TimelineRow, ...]
    spans: tuple[Span, ...]  # newest first
    is_cut: bool  # there were more jobs than were examined


def timeline_of(ledger: Ledger, owner: str, workers: Sequence[WorkerInfo], window_s: float, now: datetime) -> Timeline:
    """The timeline of the owner's own jobs. Raises StoreUnavailable."""
    since = now - timedelta(seconds=window_s)
    found = ledger.list(JobFilter(owner), limit=MAX_JOBS)
    running = ledger.list(JobFilter(owner, JobState.RUNNING), limit=MAX_ROWS)
    jobs = {job.id: job for job in (*running.jobs, *found.jobs)}
    spans = [span for job in jobs.values() if (span := _span(job, now)) is not None and span.end > since]
    spans.sort(key=lambda span: span.begin, reverse=True)
    is_cut = found.cursor is not None and found.jobs[-1].record.created_at > since
    return Timeline(tuple(_rows(spans, workers, since, window_s)), tuple(spans), is_cut)


def _span(job: Job, now: datetime) -> Span | None:
    """The span of a job; None if no worker has run it, or it waits for another attempt."""
    record = job.record
    if record.started_at is None or not job.worker or record.state is JobState.QUEUED:
        return None
    return Span(job, record.started_at, max(record.started_at, record.finished_at or now))


def _rows(
    spans: Iterable[Span], workers: Sequence[WorkerInfo], since: datetime, window_s: float
) -> Iterable[TimelineRow]:
    """The rows: live workers by name, then dead workers that had a job."""
    by_worker: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_worker[span.job.worker].append(span)
    live = {worker.id: worker.device.name for worker in workers}
    for name in [*live, *sorted(by_worker.keys() - live.keys())][:MAX_ROWS]:
        own = by_worker.get(name, [])
        device = live.get(name) or next((span.job.record.device or "" for span in own), "")
        yield TimelineRow(name, device, blocks_of(own, since, window_s), name in live)


def blocks_of(spans: Sequence[Span], since: datetime, window_s: float) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for span in sorted(spans, key=lambda each: each.begin):
        start = max(0.0, (span.begin - since).total_seconds() / window_s * WIDTH)
        width = max(MIN_WIDTH, min(WIDTH, (span.end - since).total_seconds() / window_s * WIDTH) - start)
        start = min(start, WIDTH - width)
        last = blocks[-1] if blocks else None
        if last and last.start + last.width > start and min(last.width, width) <= 2 * MIN_WIDTH:
            end = max(last.start + last.width, start + width)
            blocks[-1] = Block((*last.spans, span), last.start, round(end - last.start, 1))
        else:
            blocks.append(Block((span,), round(start, 1), round(width, 1)))
    return tuple(blocks)
