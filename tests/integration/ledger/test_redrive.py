"""A redrive within the queue's limits, and with an Idempotency-Key: the same on both ledgers."""

from __future__ import annotations

import pytest

from jobs.errors import IdempotencyKeyReused, OperandMissing, QueueFull, QuotaExceeded, WrongState
from jobs.ledger.interface import IdempotencyKey
from jobs.ledger.limits import Limits
from jobs.models import ANONYMOUS
from jobs.requests.job_matrices import JobMatrices
from jobs.states import JobState
from tests.support.ledger.chained import PRODUCT, SMALL, submit, succeed
from tests.support.ledger.ledgers import Bench


def test_a_redrive_respects_the_queue_s_limits(bench: Bench) -> None:
    """As a submission does: a thousand retries are a thousand jobs."""
    cancelled = [bench.submit() for _ in range(3)]
    for message in cancelled:
        bench.ledger.cancel(message.job_id)
    bench.submit()
    owner = bench.ledger.get(cancelled[0].job_id).owner
    first, second, third = (message.job_id for message in cancelled)
    assert bench.ledger.redrive(first, owner=owner, limits=Limits(2, 2))[1] is not None
    for limits, error in ((Limits(2, 9), QueueFull), (Limits(9, 2), QuotaExceeded)):
        with pytest.raises(error):
            bench.ledger.redrive(second, owner=owner, limits=limits)
        assert bench.ledger.get(second).record.state is JobState.CANCELLED
    assert bench.ledger.redrive(third, owner=owner, limits=Limits(3, 3))[1] is not None


def test_a_redrive_binds_its_key_in_the_same_step(bench: Bench) -> None:
    """Sent again with the key it changes nothing, also where the job failed again meanwhile."""
    message = bench.submit()
    owner, key = bench.ledger.get(message.job_id).owner, IdempotencyKey("again", "print")
    bench.ledger.cancel(message.job_id)
    job, sent = bench.ledger.redrive(message.job_id, owner=owner, key=key)
    assert sent is not None and bench.ledger.bound_job(owner, key) == message.job_id
    for state in (JobState.QUEUED, JobState.CANCELLED):
        job, sent = bench.ledger.redrive(message.job_id, owner=owner, key=key)
        assert (sent, job.record.state, job.record.attempt) == (None, state, 2)
        bench.ledger.cancel(message.job_id)
    with pytest.raises(IdempotencyKeyReused):
        bench.ledger.redrive(message.job_id, owner=owner, key=IdempotencyKey("again", "another"))


def test_a_refused_redrive_binds_no_key(bench: Bench) -> None:
    message = bench.submit()
    owner, key = bench.ledger.get(message.job_id).owner, IdempotencyKey("again", "print")
    with pytest.raises(WrongState):
        bench.ledger.redrive(message.job_id, owner=owner, key=key)
    bench.ledger.cancel(message.job_id)
    with pytest.raises(QueueFull):
        bench.ledger.redrive(message.job_id, owner=owner, key=key, limits=Limits(0, 9))
    assert bench.ledger.bound_job(owner, key) is None


# ---- operands that were in its record ----
def refused_for(bench: Bench, job_id: str) -> str | None:
    """The operand that a redrive misses, after the time of what is in its record; it changes nothing."""
    bench.clock.advance(6)
    assert bench.ledger.expire_matrices() == 1
    before, key = bench.ledger.get(job_id), IdempotencyKey("again", "print")
    with pytest.raises(OperandMissing) as refused:
        bench.ledger.redrive(job_id, owner=ANONYMOUS, key=key)
    assert bench.ledger.get(job_id) == before and bench.ledger.bound_job(ANONYMOUS, key) is None
    return refused.value.field


@pytest.mark.parametrize(("held", "first"), [({"a": b"a", "b": b"b", "c": b"c"}, "a"), ({"c": b"c"}, "c")])
def test_a_redrive_without_its_operands_is_refused(bench: Bench, held: dict[str, bytes], first: str) -> None:
    """The service looks first, but they may go between its look and this step."""
    job_id = submit(bench, matrices=JobMatrices(**held, ttl_s=5)).job_id
    bench.ledger.cancel(job_id)
    bench.clock.advance(4)
    assert bench.ledger.expire_matrices() == 0 and bench.ledger.redrive(job_id)[1] is not None
    bench.ledger.cancel(job_id)
    assert refused_for(bench, job_id) == first


def test_a_redrive_without_a_product_in_its_record_is_refused(bench: Bench) -> None:
    """Another job's, which was copied there; also where that job still has its own."""
    source = submit(bench, matrices=SMALL).job_id
    job_id = submit(bench, b=source, matrices=JobMatrices(ttl_s=5)).job_id
    succeed(bench, source, PRODUCT)
    bench.ledger.cancel(job_id)
    assert refused_for(bench, job_id) == "b"
