"""Idempotency-Keys, on both ledgers: one key, one job."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from jobs.errors import IdempotencyKeyInUse, IdempotencyKeyReused
from jobs.ledger.interface import IdempotencyKey
from jobs.ledger.messages import JobMessage
from jobs.models import ANONYMOUS, Job
from jobs.states import JobState
from tests.support.ledger.ledgers import Bench, new_job

KEY = IdempotencyKey("order-7", "fingerprint")
OTHER_BODY = IdempotencyKey("order-7", "another fingerprint")


def submit(bench: Bench, owner: str = ANONYMOUS, key: IdempotencyKey = KEY) -> tuple[Job, JobMessage | None]:
    return bench.ledger.submit(new_job(owner), max_queued=1, max_queued_per_owner=1, idempotency=key)


def test_the_second_submission_gets_the_first_job(bench: Bench) -> None:
    assert bench.ledger.bound_job(ANONYMOUS, KEY) is None
    job, message = submit(bench)
    assert message is not None
    assert submit(bench) == (job, None)  # though the queue is full
    assert bench.ledger.bound_job(ANONYMOUS, KEY) == job.id
    assert bench.claim(message) and bench.succeed(message)
    again, none = submit(bench)
    assert (again.id, again.record.state, none) == (job.id, JobState.SUCCEEDED, None)


def test_another_body_under_the_same_key_is_refused(bench: Bench) -> None:
    submit(bench)
    with pytest.raises(IdempotencyKeyReused):
        submit(bench, key=OTHER_BODY)
    with pytest.raises(IdempotencyKeyReused):
        bench.ledger.bound_job(ANONYMOUS, OTHER_BODY)
    assert bench.ledger.counts()[JobState.QUEUED] == 1


def test_keys_are_each_owners_own(bench: Bench) -> None:
    job, message = submit(bench, "alice")
    assert message is not None and bench.claim(message)
    other, _ = submit(bench, "bob", OTHER_BODY)
    assert other.id != job.id
    assert bench.ledger.bound_job("alice", KEY) == job.id
    assert bench.ledger.bound_job("carol", KEY) is None


def test_a_deleted_job_frees_its_key(bench: Bench) -> None:
    first, _ = submit(bench)
    bench.ledger.cancel(first.id)
    assert bench.ledger.bound_job(ANONYMOUS, KEY) == first.id
    bench.ledger.delete(first.id)
    assert bench.ledger.bound_job(ANONYMOUS, KEY) is None
    second, message = submit(bench, key=OTHER_BODY)
    assert message is not None
    assert bench.ledger.bound_job(ANONYMOUS, OTHER_BODY) == second.id


def test_an_expired_job_frees_its_key(bench: Bench) -> None:
    job, _ = submit(bench)
    bench.ledger.cancel(job.id)
    assert len(bench.ledger.expire(job_ttl_s=0)) == 1
    assert bench.ledger.bound_job(ANONYMOUS, KEY) is None


def test_one_request_at_a_time_holds_a_key(bench: Bench) -> None:
    hold, release = bench.ledger.hold_key, bench.ledger.release_key
    assert hold("alice", "k", holder="one", hold_s=60) is None
    assert hold("alice", "k", holder="one", hold_s=60) is None  # renewed
    with pytest.raises(IdempotencyKeyInUse):
        hold("alice", "k", holder="two", hold_s=60)
    assert hold("bob", "k", holder="two", hold_s=60) is None
    release("alice", "k", holder="two")  # not its own
    with pytest.raises(IdempotencyKeyInUse):
        hold("alice", "k", holder="two", hold_s=60)
    release("alice", "k", holder="one")
    assert hold("alice", "k", holder="two", hold_s=60) is None
    release("alice", "unknown", holder="one")


def test_a_holder_learns_of_the_bound_job(bench: Bench) -> None:
    assert bench.ledger.hold_key(ANONYMOUS, KEY.key, holder="one", hold_s=60) is None
    job, _ = submit(bench)
    with pytest.raises(IdempotencyKeyInUse):
        bench.ledger.hold_key(ANONYMOUS, KEY.key, holder="two", hold_s=60)
    assert bench.ledger.hold_key(ANONYMOUS, KEY.key, holder="one", hold_s=60) == job.id
    bench.ledger.release_key(ANONYMOUS, KEY.key, holder="one")
    assert bench.ledger.hold_key(ANONYMOUS, KEY.key, holder="two", hold_s=60) == job.id


def test_the_same_request_sixteen_times_at_once_is_one_job(bench: Bench) -> None:
    start = Barrier(16)

    def one(_: int) -> tuple[Job, JobMessage | None]:
        start.wait(60)
        return bench.ledger.submit(new_job(), max_queued=99, max_queued_per_owner=99, idempotency=KEY)

    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(one, range(16)))
    assert len({job.id for job, _ in replies}) == 1
    assert sum(message is not None for _, message in replies) == 1
    assert bench.ledger.counts()[JobState.QUEUED] == 1


def test_one_of_sixteen_takes_a_key(bench: Bench) -> None:
    start = Barrier(16)

    def one(number: int) -> bool:
        start.wait(60)
        try:
            bench.ledger.hold_key("alice", "k", holder=f"holder {number}", hold_s=60)
        except IdempotencyKeyInUse:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(one, range(16))) == 1


def test_a_key_can_stand_for_something_other_than_a_submission(bench: Bench) -> None:
    bench.ledger.bind_key("alice", KEY, "a matrix")
    assert bench.ledger.bound_job("alice", KEY) == "a matrix"
    assert bench.ledger.bound_job("bob", KEY) is None
    with pytest.raises(IdempotencyKeyReused):
        bench.ledger.bound_job("alice", OTHER_BODY)
