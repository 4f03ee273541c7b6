"""A failed or cancelled job again, as its owner asks for it. For worker threads."""

from __future__ import annotations

from jobs.ledger.interface import IdempotencyKey
from jobs.ledger.limits import NO_COST, cost_of_product
from jobs.models import Job, MatmulRequest
from service.context import Context
from service.submit.limits import limits_of
from service.submit.product import check_operands


def redrive(context: Context, job_id: str, owner: str, idempotency: IdempotencyKey | None = None) -> tuple[Job, bool]:
    """The job, and whether an earlier request with that key queued it.

    Raises JobNotFound, WrongState, OperandMissing, QueueFull, QuotaExceeded, IdempotencyKeyReused.
    """
    job = context.ledger.get(job_id, owner=owner)
    if idempotency is not None and context.ledger.bound_job(owner, idempotency) is not None:
        return job, True
    check_operands(context, job)
    request = job.record.request
    queued, message = context.ledger.redrive(
        job_id,
        owner=owner,
        limits=limits_of(context, owner),
        cost=cost_of_product(request) if isinstance(request, MatmulRequest) else NO_COST,
        key=idempotency,
    )
    return queued, message is None
