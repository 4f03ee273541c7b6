"""Reads script replies about jobs that another version may have recorded; an unreadable job must not block the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import structlog

from jobs.ledger.interface import Requeued
from jobs.ledger.messages import JobMessage
from jobs.ledger.replies import job_of
from jobs.models import Job
from jobs.states import JobState
from jobs.stored import RecordUnreadable
from jobs.tracing.request_trace import log_fields
from jobs.tracing.spans import LostAttempt

log = structlog.get_logger(__name__)


def requeued(reply: Sequence[Any]) -> Requeued | None:
    """As `Ledger.fail`. Only fields that the script itself writes are read, because nothing may fail after the
    change.
    """
    if reply[0] == b"stale":
        return None
    fields = dict(zip(reply[1][::2], reply[1][1::2], strict=True))
    job_id, state, queue = (fields[name].decode() for name in (b"id", b"state", b"queue"))
    attempt, number, timeout_us = (int(fields[name]) for name in (b"attempt", b"number", b"timeout"))
    message = JobMessage(job_id, attempt, queue, number, timeout_us / 1e6)
    return Requeued(job_id, JobState(state), message if state == JobState.QUEUED else None, lost_attempt(reply[3:]))


def lost_attempt(about: Sequence[Any]) -> LostAttempt | None:
    """Parses what scripts report of an attempt that they took from its worker; None if they report none."""
    if len(about) < 4:
        return None
    trace, queued_us, started_us, error_type = about
    return LostAttempt(trace.decode(), int(queued_us), int(started_us), error_type.decode())


def readable(replies: Sequence[Any], when_unreadable: Callable[[], object]) -> list[Job]:
    """The readable jobs. Jobs that this version cannot read are logged and reported; jobs that no longer exist are left
    out.
    """
    jobs = []
    for reply in replies:
        try:
            jobs += [job_of(reply)] if reply[1] else []
        except RecordUnreadable as error:
            found = dict(zip(reply[1][::2], reply[1][1::2], strict=True))
            when_unreadable()
            about = {"job": found.get(b"id"), **log_fields(found.get(b"trace", b"").decode())}
            log.warning("a job cannot be read", reason=repr(error.__cause__), **about)
    return jobs
