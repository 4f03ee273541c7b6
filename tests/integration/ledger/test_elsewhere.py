"""A job whose product came out wrong is for another worker, on both ledgers."""

from __future__ import annotations

from jobs.errors import DeviceFault, VerificationFailed
from jobs.ledger.codec import job_error
from tests.support.ledger.ledgers import Bench

WRONG = job_error(VerificationFailed)


def claimed_by(bench: Bench, job_id: str, attempt: int, worker: str) -> bool:
    return bench.ledger.claim(job_id, attempt, worker=worker, lease_s=60) is not None


def wrong_on(bench: Bench, job_id: str, *workers: str) -> None:
    """Each of them makes it wrong, one attempt after the other."""
    for attempt, worker in enumerate(workers, 1):
        assert claimed_by(bench, job_id, attempt, worker)
        assert bench.ledger.fail(job_id, attempt, WRONG, max_attempts=9)


def test_another_worker_makes_it(bench: Bench) -> None:
    job_id = bench.submit().job_id
    bench.ledger.refill({"cpu": 2})
    wrong_on(bench, job_id, "one")
    assert not claimed_by(bench, job_id, 2, "one")
    assert bench.state(job_id) == "queued" and bench.ledger.get(job_id).record.attempt == 2
    assert claimed_by(bench, job_id, 2, "two")


def test_it_waits_behind_all_others(bench: Bench) -> None:
    job_id = bench.submit().job_id
    bench.ledger.refill({"cpu": 2})
    wrong_on(bench, job_id, "one")
    bench.submit()
    assert bench.ledger.get(job_id).record.queue_position == 1
    assert not claimed_by(bench, job_id, 2, "one")
    assert bench.ledger.get(job_id).record.queue_position == 2
    bench.clock.advance(1)
    lost = bench.ledger.lost_messages("cpu", broker_is_empty=True, grace_s=0.5)
    assert job_id in {message.job_id for message in lost}  # its new message is looked after as any other


def test_a_worker_that_is_alone_makes_it_again(bench: Bench) -> None:
    job_id = bench.submit().job_id
    bench.ledger.refill({"cpu": 2})
    wrong_on(bench, job_id, "one")
    assert not claimed_by(bench, job_id, 2, "one")
    bench.ledger.refill({"cpu": 1})
    assert claimed_by(bench, job_id, 2, "one")


def test_one_that_never_made_it_wrong_comes_first(bench: Bench) -> None:
    job_id = bench.submit().job_id
    bench.ledger.refill({"cpu": 3})
    wrong_on(bench, job_id, "one", "two")
    assert not claimed_by(bench, job_id, 3, "two") and not claimed_by(bench, job_id, 3, "one")
    bench.ledger.refill({"cpu": 2})
    assert not claimed_by(bench, job_id, 3, "two")
    assert claimed_by(bench, job_id, 3, "one")


def test_it_does_not_wait_for_ever(bench: Bench) -> None:
    """The others may all be at work for hours."""
    job_id = bench.submit().job_id
    bench.ledger.refill({"cpu": 2})
    wrong_on(bench, job_id, "one")
    bench.clock.advance(299)
    assert not claimed_by(bench, job_id, 2, "one")
    bench.clock.advance(2)
    assert claimed_by(bench, job_id, 2, "one")


def test_other_failures_bind_no_one(bench: Bench) -> None:
    job_id = bench.submit().job_id
    bench.ledger.refill({"cpu": 2})
    assert claimed_by(bench, job_id, 1, "one")
    assert bench.ledger.fail(job_id, 1, job_error(DeviceFault), max_attempts=9)
    assert claimed_by(bench, job_id, 2, "one")
