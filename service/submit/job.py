"""Records new jobs, in the same way for products and benchmarks. For worker threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobs.errors import MatmulError, StoreUnavailable
from jobs.ledger.ends import JobEnd
from jobs.ledger.interface import IdempotencyKey
from jobs.ledger.replies import RecordedJob
from jobs.models import Job, NewJob
from service.context import Context


@dataclass(frozen=True, slots=True)
class Receipt:
    """The job of a request: newly recorded, or the first request's job if its Idempotency-Key was used before."""

    job_id: str
    found: Job | RecordedJob
    new: NewJob | None = None  # the job as recorded for this request; None if it is an earlier request's

    @property
    def job(self) -> Job:
        """The job as it was when it was recorded or found."""
        return self.found if isinstance(self.found, Job) else self.found.job

    def ended(self, end: JobEnd) -> Job:
        """The job after its end. Only for a job that was recorded for this request."""
        assert isinstance(self.found, RecordedJob), "only a job that was recorded here is answered here"
        return end.of_row(self.found.row)

    @property
    def replayed(self) -> bool:
        return self.new is None


def replayed(context: Context, owner: str, key: IdempotencyKey | None) -> Receipt | None:
    """The receipt of an earlier request with this key; None for the first one. Raises IdempotencyKeyReused."""
    if key is None or (first := context.ledger.bound_job(owner, key)) is None:
        return None
    return Receipt(first, context.ledger.get(first, owner=owner))


def submit_job(
    context: Context,
    new: NewJob,
    key: IdempotencyKey | None,
    *,
    store: Callable[[], None] = lambda: None,
    drop: Callable[[], None] = lambda: None,
) -> Receipt:
    """Records the job, which tells the workers.

    `store` puts its operands into the store first, and `drop` removes them if there is no job in the end. Raises what
    `store` and the ledger raise."""
    try:
        store()
        limits = context.limits.queue(new.owner)
        found, is_new = context.ledger.record(new, limits, key)
    except StoreUnavailable:
        raise  # the job may have been recorded all the same and need its operands; otherwise they expire
    except MatmulError:
        drop()
        raise
    if not is_new:  # another request with this key was faster
        drop()
        return Receipt(found.row.id, found)
    return Receipt(new.id, found, new)
