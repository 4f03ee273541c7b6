"""Jobs that used up their attempts. For worker threads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from jobs.errors import JobNotFound, MatrixNotFound
from jobs.models import Job, product_id
from service.context import Context

MAX_SHOWN = 200


def dead_letters_of(context: Context, owner: str) -> Sequence[Job]:
    """The owner's dead letters, the most recently ended first. Raises StoreUnavailable."""
    found: list[Job] = []
    for job_id in context.ledger.dead_letters(owner=owner, limit=MAX_SHOWN):
        with suppress(JobNotFound):  # it was deleted in the meantime
            found.append(context.ledger.get(job_id, owner=owner))
    return found


def forget_job(context: Context, job_id: str, owner: str) -> None:
    """Deletes an ended job with its product and what was stored for it. Raises JobNotFound, WrongState."""
    job = context.ledger.delete(job_id, owner=owner)
    stored = [operand.matrix for operand in job.record.operands if operand.source == "inline" and operand.matrix]
    if not job.product_in_record:
        stored.append(product_id(job_id, job.record.attempt))
    for matrix_id in stored:
        with suppress(MatrixNotFound):  # most operands were removed when the job succeeded
            context.store.delete(matrix_id, owner=owner)
