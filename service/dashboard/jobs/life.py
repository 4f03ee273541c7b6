"""A job's timeline: its states with the time spent in each, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from analysis.condition import condition
from jobs.benchmarks.records import CaseRecord
from jobs.models import JobEvent, JobRecord
from jobs.states import JobState
from service.dashboard.charts.bars import BarPart, parts_of
from service.dashboard.words import shape

LAST_STEPS = 200
MAX_TROUBLES = 50


@dataclass(frozen=True, slots=True)
class LifeStep:
    """A state that the job entered; `lasted_s` is None for its end."""

    state: str
    at: datetime
    lasted_s: float | None
    attempt: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Trouble:
    """A problem to report: an error of an attempt, a case without figures, a warning."""

    where: str
    sentence: str
    at: datetime | None = None


def steps_of(record: JobRecord, events: Sequence[JobEvent]) -> Sequence[LifeStep]:
    """The job's steps, oldest first: from its events while they are kept, otherwise from the times in its record."""
    entered = [
        (event.event, when(event), int(event.data["attempt"]), _error_of(event))
        for event in events
        if event.event != "progress"
    ][-LAST_STEPS:] or list(_recorded(record))
    ends = [at for _, at, _, _ in entered[1:]] + [None if record.state.is_terminal else datetime.now(UTC)]
    return [
        LifeStep(state, at, None if end is None else max(0.0, (end - at).total_seconds()), attempt, error)
        for (state, at, attempt, error), end in zip(entered, ends, strict=True)
    ]


def _recorded(record: JobRecord) -> Iterator[tuple[str, datetime, int, str | None]]:
    yield JobState.QUEUED.value, record.created_at, 1, None
    if record.started_at is not None:
        yield JobState.RUNNING.value, record.started_at, record.attempt, None
    if record.finished_at is not None:
        yield record.state.value, record.finished_at, record.attempt, record.error.detail if record.error else None


def when(event: JobEvent) -> datetime:
    """The time of an event; its id begins with the milliseconds since the epoch."""
    return datetime.fromtimestamp(int(event.id.partition("-")[0]) / 1e3, UTC)


def life_of(steps: Sequence[LifeStep]) -> Sequence[BarPart]:
    """The steps as parts of one bar, by state."""
    return parts_of((step.state, step.lasted_s) for step in steps if step.lasted_s is not None)


def troubles_of(record: JobRecord, events: Sequence[JobEvent], records: Sequence[CaseRecord]) -> Sequence[Trouble]:
    """The job's problems: first those of the whole job, then the newest first."""
    warnings = [Trouble("benchmark", warning) for warning in record.benchmark.warnings] if record.benchmark else []
    errors = [
        Trouble(f"attempt {_failed(event)}", error, when(event))
        for event in reversed(events)
        if (error := _error_of(event))
    ]
    cases = [trouble for one in reversed(records) if (trouble := _of_case(one)) is not None]
    return [*warnings, *errors, *cases][:MAX_TROUBLES]


def _failed(event: JobEvent) -> int:
    """The attempt that failed: a job that was queued again already has a new attempt number."""
    return int(event.data["attempt"]) - (event.event == JobState.QUEUED)


def _error_of(event: JobEvent) -> str | None:
    error = event.data.get("error")
    return str(error["detail"]) if error else None


def _of_case(record: CaseRecord) -> Trouble | None:
    """Why a case has no figures, or why its figures are doubtful."""
    found = condition(record)
    if found.is_clean:
        return None
    extents = shape((record.m, record.n, record.k))
    what = "" if record.status == "ok" else f": {record.status.replace('_', ' ')}"
    return Trouble(f"{record.kernel} {record.dtype} {extents}, round {record.round + 1}{what}", found.sentence)
