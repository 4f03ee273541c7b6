"""What one owner may have in flight and ask for in a minute, on every way into the queue."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

import pytest

from jobs.benchmarks.spec import BenchmarkSpec
from jobs.errors import MatmulError, QuotaExceeded
from jobs.ledger.limits import NO_QUOTA, Limits, NewBenchmark, Quota, cost_of
from jobs.ledger.redis import RedisLedger
from jobs.models import Job, JobError, NewJob
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from tests.support.ledger.ledgers import Bench, new_job, outcome, redis_bench

MANY = 10**6
COST = cost_of(new_job())


@pytest.fixture
def bench(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Bench]:
    with redis_bench(valkey, key_prefix) as made:
        yield made


def allow(bench: Bench, quota: Quota) -> None:
    """Each owner as much from now on."""
    assert isinstance(bench.ledger, RedisLedger)
    bench.ledger._quota_of = lambda _owner: quota


def submit(bench: Bench, quota: Quota, job: NewJob | None = None) -> Job:
    allow(bench, quota)
    return bench.ledger.submit(job or new_job("alice"), max_queued=MANY, max_queued_per_owner=MANY)[0]


def redrive(bench: Bench, quota: Quota, job: Job) -> None:
    allow(bench, quota)
    bench.ledger.redrive(job.id, owner="alice", limits=Limits(MANY, MANY))


def end(bench: Bench, job: Job, how: str) -> None:
    if how == "cancelled":
        bench.ledger.cancel(job.id)
        return
    attempt = bench.ledger.get(job.id).record.attempt
    assert bench.ledger.claim(job.id, attempt, worker="w", lease_s=60)
    if how == "succeeded":
        bench.ledger.succeed(job.id, attempt, outcome())
    else:
        bench.ledger.fail(job.id, attempt, JobError(type="job_failed", detail="It failed."))


@pytest.mark.parametrize("how", ["succeeded", "failed", "cancelled"])
def test_jobs_in_flight_are_bounded_and_leave_at_their_end(bench: Bench, how: str) -> None:
    """A running job is in flight; another owner's does not count."""
    quota = Quota(jobs=2)
    first, _ = submit(bench, quota), submit(bench, quota)
    assert bench.ledger.claim(first.id, 1, worker="w", lease_s=60)
    with pytest.raises(QuotaExceeded, match="has 2 jobs in flight, as many as it may"):
        submit(bench, quota)
    submit(bench, quota, new_job("bob"))
    bench.ledger.cancel(first.id)
    third = submit(bench, quota)
    end(bench, third, how)
    submit(bench, quota)
    with pytest.raises(QuotaExceeded):
        submit(bench, quota)


def test_a_retried_attempt_stays_in_flight_and_a_lost_job_leaves(bench: Bench) -> None:
    quota = Quota(jobs=1)
    job = submit(bench, quota)
    for attempt in (1, 2):
        assert bench.ledger.claim(job.id, attempt, worker="w", lease_s=6)
        bench.clock.advance(7)
        with pytest.raises(QuotaExceeded):
            submit(bench, quota)
        bench.ledger.take_back(job.id, attempt, max_attempts=2)
    assert bench.state(job.id) == "failed"
    submit(bench, quota)


def test_bytes_in_flight_are_bounded(bench: Bench) -> None:
    quota = Quota(bytes=2 * COST.bytes)
    job, _ = submit(bench, quota), submit(bench, quota)
    with pytest.raises(QuotaExceeded, match=f"more than the {2 * COST.bytes} bytes that they may"):
        submit(bench, quota)
    end(bench, job, "succeeded")
    submit(bench, quota)


def test_operations_are_paid_off_at_the_rate(bench: Bench) -> None:
    """As a benchmark's are, which come with its submission."""
    quota = Quota(flops_per_minute=4 * COST.flops)
    for _ in range(4):
        submit(bench, quota)
    with pytest.raises(QuotaExceeded, match="in a minute; try again in 15 s") as refused:
        submit(bench, quota)
    assert refused.value.retry_after_s == 15
    bench.clock.advance(15)
    submit(bench, quota)
    spec = BenchmarkSpec(kernels=("cpu_blas",), shapes=(16,))
    large = NewBenchmark(owner="alice", queue="bench-a-cpu", timeout_s=600.0, request=spec, flops=40 * COST.flops)
    with pytest.raises(QuotaExceeded):
        submit(bench, quota, large)
    bench.clock.advance(60)
    submit(bench, quota, large)  # more than a minute's worth: let in once all is paid off, and paid off in turn
    bench.clock.advance(9 * 60)
    with pytest.raises(QuotaExceeded, match="try again in 15 s"):
        submit(bench, quota)
    bench.clock.advance(60)
    submit(bench, quota)


def test_what_takes_longer_to_pay_off_than_redis_keeps_a_key_is_recorded_whole(bench: Bench) -> None:
    """A benchmark of a week for a key that may hardly ask for anything."""
    quota = Quota(flops_per_minute=1.0)
    spec = BenchmarkSpec(kernels=("cpu_blas",), shapes=(16,))
    submit(bench, quota, NewBenchmark(owner="alice", queue="bench-a-cpu", timeout_s=600.0, request=spec, flops=1e18))
    with pytest.raises(QuotaExceeded, match="in a minute"):
        submit(bench, quota)


def test_a_redrive_counts_as_a_submission(bench: Bench) -> None:
    """A job that was recorded under no quota counts as one that holds nothing."""
    for before in (NO_QUOTA, Quota(jobs=9)):
        job = submit(bench, before)
        end(bench, job, "failed")
        other = submit(bench, Quota(jobs=1))
        with pytest.raises(QuotaExceeded):
            redrive(bench, Quota(jobs=1), job)
        end(bench, other, "cancelled")
        redrive(bench, Quota(jobs=1), job)
        with pytest.raises(QuotaExceeded):
            submit(bench, Quota(jobs=1))
        end(bench, job, "succeeded")


def test_a_redrive_after_the_quota_was_taken_away_counts_nothing(bench: Bench) -> None:
    """Nor does its end take back what its first run gave back already."""
    quota = Quota(jobs=1)
    job = submit(bench, quota)
    end(bench, job, "cancelled")
    redrive(bench, NO_QUOTA, job)
    end(bench, job, "cancelled")
    submit(bench, quota)
    with pytest.raises(QuotaExceeded):
        submit(bench, quota)


def test_a_dependent_counts_from_its_submission_to_its_end(bench: Bench) -> None:
    """It fails with the job that it waits for, in one step, and leaves with it."""
    first = submit(bench, NO_QUOTA)
    quota = Quota(jobs=1)
    waiting = submit(bench, quota, new_job("alice", a=first.id))
    assert waiting.record.queue_position is None
    with pytest.raises(QuotaExceeded):
        submit(bench, quota)
    end(bench, first, "cancelled")
    assert bench.state(waiting.id) == "failed"
    submit(bench, quota)


def test_a_refused_job_counts_nothing_and_jobs_of_before_count_nothing_either(bench: Bench) -> None:
    """So a quota may be set while jobs are in flight, and taken away again."""
    old = [submit(bench, NO_QUOTA) for _ in range(3)]
    quota = Quota(jobs=2, bytes=MANY, flops_per_minute=1e9)
    for _ in range(2):
        submit(bench, quota)
        with suppress(MatmulError):
            submit(bench, quota, new_job("alice", a="job_nowhere"))
    with pytest.raises(QuotaExceeded):
        submit(bench, quota)
    for job in old:
        end(bench, job, "succeeded")
    with pytest.raises(QuotaExceeded):
        submit(bench, quota)


def test_counts_agree_with_the_jobs_after_any_history(bench: Bench, valkey: EmbeddedServer, key_prefix: str) -> None:
    choose = random.Random(7)
    quota = Quota(jobs=6, bytes=MANY)
    jobs = [submit(bench, quota)]
    fields = ["flight:alice", "flight_bytes:alice"]
    with valkey.client() as client:
        for _ in range(200):
            with suppress(MatmulError, AssertionError):
                match choose.randrange(5):
                    case 0 | 1:
                        jobs.append(submit(bench, quota))
                    case 2:
                        end(bench, choose.choice(jobs), choose.choice(["failed", "succeeded"]))
                    case 3:
                        bench.ledger.cancel(choose.choice(jobs).id)
                    case _:
                        redrive(bench, quota, choose.choice(jobs))
            counts = bench.ledger.counts()
            flying = counts[JobState.QUEUED] + counts[JobState.RUNNING]
            assert flying <= 6
            assert [int(value or 0) for value in client.hmget(f"{key_prefix}counts", fields)] == [
                flying,
                flying * COST.bytes,
            ]
    assert len(jobs) > 20
