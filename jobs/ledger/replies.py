"""Converts replies of the ledger's scripts to Python objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from jobs.errors import IdempotencyKeyReused, JobNotFound, OperandMissing, QueueFull, WrongState
from jobs.ledger.chains import operand_failed
from jobs.ledger.codec import JobRow, new_row, row_from_hash
from jobs.ledger.limits import quota_exceeded
from jobs.ledger.messages import JobMessage
from jobs.matrices.index import Bounds, no_room
from jobs.models import Job, JobEvent, NewJob
from jobs.states import JobState

REFUSALS = {b"reused": IdempotencyKeyReused, b"queue_full": QueueFull}
ADVICE = {
    "cancelled": "; only what is queued or running can",
    "retried": "; only what failed or was cancelled can",
    "deleted": "; cancel it first, or wait for its end",
}


def row_and_job(reply: Sequence[Any]) -> tuple[JobRow, Job]:
    """Parses a job from a script's reply: outcome, hash, position in the queue (from 0, or -1)."""
    row = row_from_hash(reply[1])
    return row, row.job(_position(reply))


def _position(reply: Sequence[Any]) -> int | None:
    """The position in the queue, from 1."""
    return reply[2] + 1 if reply[2] >= 0 else None


def job_of(reply: Sequence[Any]) -> Job:
    return row_and_job(reply)[1]


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A job that was just recorded. Its `job` is made on demand: a caller who waits for the end needs only that."""

    row: JobRow
    queue_position: int | None

    @property
    def job(self) -> Job:
        return self.row.job(self.queue_position)


def recorded(reply: Sequence[Any], job: NewJob, bounds: Bounds) -> RecordedJob:
    """The job that was recorded. Raises what `Ledger.submit` raises."""
    match reply[0]:
        case b"recorded":
            seq, created_us, number, place = map(int, reply[1:])
            return RecordedJob(new_row(job, seq=seq, created_us=created_us, number=number), place + 1)
        case b"chained" | b"bound":  # bound: it was recorded before
            return RecordedJob(row_from_hash(reply[1]), _position(reply))
        case b"quota_exceeded":
            raise quota_exceeded(reply)
        case b"reused" | b"queue_full" as refusal:
            raise REFUSALS[refusal]
        case b"full" | b"owner_full" as whose:
            raise no_room(whose, reply[1], reply[2], bounds, job.owner)
        case _:
            refuse_operand(reply)


def refuse_operand(reply: Sequence[Any]) -> NoReturn:
    """Raises OperandMissing or OperandFailed, because another job's product will not exist."""
    outcome, field, *about = (part.decode() for part in reply)
    if outcome == "operand_missing":
        raise OperandMissing(field=field)
    job_id, end = about
    raise operand_failed(job_id, end, field=field)


def redriven(reply: Sequence[Any]) -> tuple[Job, JobMessage | None]:
    """As `Ledger.redrive`."""
    match reply[0]:
        case b"redriven":
            row, job = row_and_job(reply)
            return job, row.message()
        case b"bound":
            return job_of(reply), None
        case b"quota_exceeded":
            raise quota_exceeded(reply)
        case b"reused" | b"queue_full" as refusal:
            raise REFUSALS[refusal]
        case b"operand_missing" | b"operand_failed":
            refuse_operand(reply)
        case outcome:
            refuse(outcome.decode(), "retried")


def event_of(entry: Sequence[Any]) -> JobEvent:
    """Parses an event from an XRANGE entry: its id, and names and values."""
    event_id, flat = entry
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    return JobEvent(id=event_id.decode(), event=fields[b"event"].decode(), data=json.loads(fields[b"data"]))


def counts_of(counted: Sequence[bytes | None], running: int, ended: int) -> Mapping[JobState, int]:
    """The number of jobs in each state. `counted`: those that wait, failed, were cancelled, and are pinned."""
    queued, failed, cancelled, *pinned = (int(value or 0) for value in counted)
    return {
        JobState.QUEUED: queued,
        JobState.RUNNING: running,
        JobState.SUCCEEDED: ended + sum(pinned) - failed - cancelled,
        JobState.FAILED: failed,
        JobState.CANCELLED: cancelled,
    }


def refuse(outcome: str, verb: Literal["cancelled", "retried", "deleted"]) -> NoReturn:
    if outcome == "not_found":
        raise JobNotFound
    raise WrongState(f"The job is {outcome}, so it cannot be {verb}{ADVICE[verb]}.")
