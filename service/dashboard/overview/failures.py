"""What failed and why: the newest failures, grouped by their error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.ledger.interface import JobFilter, Ledger
from jobs.models import Job
from jobs.states import JobState

MAX_FAILURES = 100  # newest failures examined


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failed jobs with the same type of error."""

    type: str
    count: int
    newest: Job
    detail: str  # detail of the newest
    devices: str  # where they ran, in words


def failures_of(ledger: Ledger, owner: str, window_s: float, now: datetime) -> Sequence[FailureGroup]:
    """The owner's failures by error, most frequent first. Raises StoreUnavailable."""
    since = now - timedelta(seconds=window_s)
    failed = ledger.list(JobFilter(owner, JobState.FAILED), limit=MAX_FAILURES).jobs
    recent = [job for job in failed if _ended(job) >= since]
    groups = [
        _group(kind, [job for job in recent if _type(job) == kind])
        for kind in dict.fromkeys(_type(job) for job in recent)
    ]
    return sorted(groups, key=lambda group: -group.count)


def _ended(job: Job) -> datetime:
    return job.record.finished_at or job.record.created_at


def _type(job: Job) -> str:
    return job.record.error.type if job.record.error else "unknown"


def _group(kind: str, jobs: Sequence[Job]) -> FailureGroup:
    newest = max(jobs, key=_ended)
    devices = Counter(job.record.device or job.worker or "never started" for job in jobs)
    where = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in devices.most_common(3))
    return FailureGroup(kind, len(jobs), newest, newest.record.error.detail if newest.record.error else "", where)
