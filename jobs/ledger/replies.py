"""What the ledger's scripts answer, as Python has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from jobs.errors import IdempotencyKeyReused, JobNotFound, OperandMissing, QueueFull, QuotaExceeded, WrongState
from jobs.ledger.chains import operand_failed
from jobs.ledger.codec import JobRow, row_from_hash
from jobs.ledger.interface import Claimed, JobMessage
from jobs.matrices.index import Bounds, no_room
from jobs.matrices.packed import PackedMatrix
from jobs.models import Job


def row_and_job(reply: Sequence[Any]) -> tuple[JobRow, Job]:
    """A job out of a script's reply: outcome, hash, place in the queue (from 0, or -1)."""
    row = row_from_hash(reply[1])
    return row, row.job(reply[2] + 1 if reply[2] >= 0 else None)


def job_of(reply: Sequence[Any]) -> Job:
    return row_and_job(reply)[1]


def claimed_job(reply: Sequence[Any]) -> Claimed:
    job = job_of(reply)
    a, b = (None if packed is None else PackedMatrix(packed) for packed in reply[3])
    return Claimed(job, job.record.attempt, a, b)


def submitted(reply: Sequence[Any], bounds: Bounds, owner: str) -> tuple[Job, JobMessage | None]:
    """As `Ledger.submit`."""
    match reply[0]:
        case b"recorded":
            row, recorded = row_and_job(reply)
            return recorded, row.message()
        case b"bound":
            return job_of(reply), None
        case b"reused":
            raise IdempotencyKeyReused
        case b"queue_full":
            raise QueueFull
        case b"full" | b"owner_full" as whose:
            raise no_room(whose, reply[1], reply[2], bounds, owner)
        case b"quota_exceeded":
            raise QuotaExceeded
        case _:
            refuse_operand(reply)


def refuse_operand(reply: Sequence[Any]) -> NoReturn:
    """The product of another job will not be there. Raises OperandMissing, OperandFailed."""
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
        case b"reused":
            raise IdempotencyKeyReused
        case b"queue_full":
            raise QueueFull
        case b"quota_exceeded":
            raise QuotaExceeded
        case b"operand_missing" | b"operand_failed":
            refuse_operand(reply)
        case outcome:
            refuse(outcome.decode(), "retried")


def refuse(outcome: str, verb: str) -> NoReturn:
    if outcome == "not_found":
        raise JobNotFound
    raise WrongState(f"The job is {outcome}, so it cannot be {verb}.")
