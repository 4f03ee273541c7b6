"""Retries a failed or cancelled job at its owner's request. For worker threads."""

from __future__ import annotations

from jobs.ledger.interface import IdempotencyKey
from jobs.models import Job
from service.context import Context
from service.submit.product import check_operands


def redrive(context: Context, job_id: str, owner: str, idempotency: IdempotencyKey | None = None) -> tuple[Job, bool]:
    """Queues the job again. Returns it, and whether an earlier request with that key already did so.

    Raises JobNotFound, WrongState, OperandMissing, QueueFull, QuotaExceeded, IdempotencyKeyReused.
    """
    job = context.ledger.get(job_id, owner=owner)
    if idempotency is not None and context.ledger.bound_job(owner, idempotency) is not None:
        return job, True
    check_operands(context, job)
    queued, message = context.ledger.redrive(
        job_id,
        owner=owner,
        limits=context.limits.queue(owner),
        key=idempotency,
    )
    return queued, message is None
