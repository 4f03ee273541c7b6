"""A job's life, on both ledgers: every move there is, and every move there is not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.errors import DeviceFault, JobNotFound, OperandMissing, QueueFull, QuotaExceeded, WrongState
from jobs.ledger.codec import job_error
from jobs.ledger.messages import JobMessage
from jobs.models import Progress
from jobs.states import JobState
from tests.support.ledger.ledgers import Bench, new_job, outcome

FAULT = job_error(DeviceFault)
MISSING = job_error(OperandMissing)


def test_a_submitted_job_waits_its_turn(bench: Bench) -> None:
    first, second = bench.submit("alice"), bench.submit("bob")
    job = bench.ledger.get(second.job_id, owner="bob")
    assert (job.owner, job.queue, job.version, job.timeout_s) == ("bob", "cpu", 1, 600.0)
    record = job.record
    assert (record.state, record.attempt, record.queue_position) == (JobState.QUEUED, 1, 2)
    assert record.progress == Progress(done=0, total=1)
    assert (record.started_at, record.finished_at, record.kernel, record.timing, record.error) == (None,) * 5
    assert (second.attempt, second.queue, second.timeout_s) == (1, "cpu", 600.0)
    assert second.number > first.number


def test_submitting_says_what_get_says(bench: Bench) -> None:
    job, message = bench.ledger.submit(new_job(), max_queued=1, max_queued_per_owner=1)
    assert bench.ledger.get(job.id) == job
    assert message == JobMessage(job.id, 1, "cpu", 1, 600.0)


def test_the_same_job_twice_is_one_job(bench: Bench) -> None:
    new = new_job()
    first, _ = bench.ledger.submit(new, max_queued=9, max_queued_per_owner=9)
    assert bench.ledger.submit(new, max_queued=9, max_queued_per_owner=9) == (first, None)
    assert bench.ledger.counts()[JobState.QUEUED] == 1


def test_a_product_gets_its_record(bench: Bench) -> None:
    message = bench.submit()
    bench.clock.advance(0.5)
    assert bench.claim(message)
    bench.clock.advance(0.25)
    assert bench.succeed(message)
    job = bench.ledger.get(message.job_id)
    record, done = job.record, outcome()
    assert (record.state, record.attempt, job.version, record.queue_position) == (JobState.SUCCEEDED, 1, 3, None)
    assert (record.kernel, record.config, record.why, record.device) == (
        done.kernel,
        done.config,
        done.why,
        done.device,
    )
    assert (record.product, record.gflops, record.verification) == (done.product, done.gflops, done.verification)
    assert record.progress == Progress(done=1, total=1)
    assert record.started_at == record.created_at + timedelta(seconds=0.5)
    assert record.finished_at == record.created_at + timedelta(seconds=0.75)
    assert record.timing is not None
    assert record.timing.model_dump() == {
        "queue_ms": 500.0,
        "h2d_ms": 0.25,
        "kernel_ms": 0.5,
        "d2h_ms": 0.125,
        "total_ms": 750.0,
    }


def test_a_message_starts_its_job_once(bench: Bench) -> None:
    message = bench.submit()
    claimed = bench.ledger.claim(message.job_id, 1, worker="w", lease_s=6)
    assert claimed is not None
    assert (claimed.attempt, claimed.job) == (1, bench.ledger.get(message.job_id))
    assert claimed.job.record.state is JobState.RUNNING
    assert not bench.claim(message)  # the same message again
    assert bench.ledger.claim("job_unknown", 1, worker="w", lease_s=6) is None
    assert bench.ledger.claim("not:an:id", 1, worker="w", lease_s=6) is None


def test_a_retry_has_a_new_attempt_and_the_old_one_is_fenced_out(bench: Bench) -> None:
    old = bench.running()
    assert bench.ledger.progress(old.job_id, 1, Progress(done=1, total=3))
    bench.clock.advance(3)
    taken = bench.ledger.fail(old.job_id, 1, FAULT, max_attempts=3)
    assert taken is not None and taken.message is not None
    assert (taken.state, taken.message.attempt) == (JobState.QUEUED, 2)
    assert taken.message.number > old.number
    record = bench.ledger.get(old.job_id).record
    assert (record.state, record.attempt, record.queue_position, record.error) == (JobState.QUEUED, 2, 1, None)
    assert record.progress == Progress(done=0, total=1)
    assert not bench.claim(old)  # a message of the first attempt
    assert bench.claim(taken.message)
    assert not bench.succeed(old)
    assert not bench.ledger.renew(old.job_id, 1, lease_s=6)
    assert not bench.ledger.progress(old.job_id, 1, Progress(done=1, total=1))
    assert bench.ledger.fail(old.job_id, 1, FAULT, max_attempts=3) is None
    assert bench.state(old.job_id) == "running"
    bench.clock.advance(1)
    assert bench.succeed(taken.message)
    timing = bench.ledger.get(old.job_id).record.timing
    assert timing is not None and (timing.queue_ms, timing.total_ms) == (0, 4000)


def test_asking_again_whether_it_succeeded_gets_the_same_answer(bench: Bench) -> None:
    message = bench.running()
    assert bench.succeed(message)
    before = bench.ledger.get(message.job_id)
    assert bench.succeed(message)  # the first reply was lost on the way
    assert bench.ledger.get(message.job_id) == before


def test_runs_are_capped_and_the_last_failure_is_a_dead_letter(bench: Bench) -> None:
    message = bench.running("alice")
    for attempt in (1, 2):
        taken = bench.ledger.fail(message.job_id, attempt, FAULT, max_attempts=3)
        assert taken and taken.message and bench.claim(taken.message)
    last = bench.ledger.fail(message.job_id, 3, FAULT, max_attempts=3)
    assert last and (last.state, last.message) == (JobState.FAILED, None)
    assert bench.ledger.get(message.job_id).record.error == FAULT
    assert bench.ledger.dead_letters() == bench.ledger.dead_letters(owner="alice") == [message.job_id]
    assert bench.ledger.dead_letters(owner="bob") == []


def test_an_error_that_no_run_would_cure_fails_at_once(bench: Bench) -> None:
    message = bench.running()
    taken = bench.ledger.fail(message.job_id, 1, MISSING)
    assert taken and (taken.state, taken.message) == (JobState.FAILED, None)
    record = bench.ledger.get(message.job_id).record
    assert (record.state, record.error, record.timing) == (JobState.FAILED, MISSING, None)
    assert record.finished_at is not None
    assert bench.ledger.dead_letters() == []


def test_a_redrive_starts_afresh(bench: Bench) -> None:
    message = bench.running()
    assert bench.ledger.fail(message.job_id, 1, FAULT, max_attempts=2)
    assert bench.ledger.claim(message.job_id, 2, worker="w", lease_s=6)
    assert bench.ledger.fail(message.job_id, 2, FAULT, max_attempts=2)
    assert bench.ledger.dead_letters() == [message.job_id]
    job, again = bench.ledger.redrive(message.job_id)
    assert again is not None
    assert (job.record.state, job.record.attempt, again.attempt) == (JobState.QUEUED, 3, 3)
    assert (job.record.error, job.record.finished_at, job.record.queue_position) == (None, None, 1)
    assert bench.ledger.dead_letters() == []
    assert bench.claim(again)
    taken = bench.ledger.fail(message.job_id, 3, FAULT, max_attempts=2)
    assert taken and taken.state is JobState.QUEUED  # the runs are counted from the redrive
    assert bench.ledger.expire(job_ttl_s=0) == []


def test_cancel_ends_a_job_wherever_it_is(bench: Bench) -> None:
    queued, running = bench.submit(), bench.submit()
    assert bench.claim(running)
    for message in (queued, running):
        job, how = bench.ledger.cancel(message.job_id)
        assert (how, job.record.state, job.record.queue_position) == ("cancelled", JobState.CANCELLED, None)
        assert job.record.finished_at is not None
        assert bench.ledger.cancel(message.job_id) == (job, "already_cancelled")
        assert not bench.ledger.renew(message.job_id, 1, lease_s=6)
        assert not bench.claim(message)
        assert not bench.succeed(message)
        assert bench.ledger.fail(message.job_id, 1, FAULT, max_attempts=9) is None
        assert bench.ledger.get(message.job_id) == job
    assert bench.ledger.expired_leases() == []
    assert bench.ledger.depths(["cpu"])["cpu"].waiting == 0


def test_what_has_ended_is_not_cancelled(bench: Bench) -> None:
    done, failed = bench.running(), bench.running()
    assert bench.succeed(done)
    assert bench.ledger.fail(failed.job_id, 1, MISSING)
    for message, state in ((done, "succeeded"), (failed, "failed")):
        with pytest.raises(WrongState, match=f"is {state}, so it cannot be cancelled"):
            bench.ledger.cancel(message.job_id)


def test_what_is_not_over_is_neither_redriven_nor_deleted(bench: Bench) -> None:
    queued, running, done = bench.submit(), bench.submit(), bench.running()
    assert bench.claim(running)
    assert bench.succeed(done)
    for message in (queued, running, done):
        with pytest.raises(WrongState, match="cannot be retried"):
            bench.ledger.redrive(message.job_id)
    for message in (queued, running):
        with pytest.raises(WrongState, match="cannot be deleted"):
            bench.ledger.delete(message.job_id)


def test_a_cancelled_job_can_be_redriven(bench: Bench) -> None:
    message = bench.submit()
    bench.ledger.cancel(message.job_id)
    job, again = bench.ledger.redrive(message.job_id)
    assert again is not None
    assert job.record.state is JobState.QUEUED
    assert not bench.claim(message)  # its first message is still about
    assert bench.claim(again)


def test_a_deleted_job_leaves_nothing(bench: Bench) -> None:
    message = bench.running()
    assert bench.succeed(message)
    last = bench.ledger.get(message.job_id)
    assert bench.ledger.delete(message.job_id) == last
    with pytest.raises(JobNotFound):
        bench.ledger.get(message.job_id)
    assert bench.events(message.job_id) == []
    assert sum(bench.ledger.counts().values()) == 0
    assert bench.ledger.expire(job_ttl_s=0) == []
    with pytest.raises(JobNotFound):
        bench.ledger.delete(message.job_id)


@pytest.mark.parametrize("job_id", ["job_0", "", "job_0:events", "*", "é", "x" * 10_000])
def test_what_is_no_job_is_not_found(bench: Bench, job_id: str) -> None:
    for verb in (bench.ledger.get, bench.ledger.cancel, bench.ledger.redrive, bench.ledger.delete):
        with pytest.raises(JobNotFound):
            verb(job_id)
    assert bench.events(job_id) == []


def test_the_events_of_a_job_do_not_pass_for_a_job(bench: Bench) -> None:
    with pytest.raises(JobNotFound):
        bench.ledger.get(f"{bench.submit().job_id}:events")


def test_anothers_job_is_not_found(bench: Bench) -> None:
    message = bench.submit("alice")
    for verb in (bench.ledger.get, bench.ledger.cancel, bench.ledger.redrive, bench.ledger.delete):
        with pytest.raises(JobNotFound):
            verb(message.job_id, owner="bob")
    assert bench.ledger.get(message.job_id, owner="alice").record.state is JobState.QUEUED


def test_a_full_queue_takes_no_more(bench: Bench) -> None:
    first = bench.submit("alice")
    with pytest.raises(QueueFull):
        bench.ledger.submit(new_job("bob"), max_queued=1, max_queued_per_owner=9)
    with pytest.raises(QuotaExceeded):
        bench.ledger.submit(new_job("alice"), max_queued=9, max_queued_per_owner=1)
    bench.ledger.submit(new_job("bob"), max_queued=9, max_queued_per_owner=1)
    assert bench.claim(first)  # a running job does not wait
    bench.ledger.submit(new_job("alice"), max_queued=9, max_queued_per_owner=1)
    assert bench.ledger.counts()[JobState.QUEUED] == 2


def test_ended_jobs_expire_in_their_order(bench: Bench) -> None:
    ended = [bench.running() for _ in range(3)]
    waiting = bench.submit()
    for message in ended:
        assert bench.succeed(message)
        bench.clock.advance(10)
    assert bench.ledger.expire(job_ttl_s=31) == []
    gone = bench.ledger.expire(job_ttl_s=15)
    assert [job.id for job in gone] == [message.job_id for message in ended[:2]]
    assert all(job.record.state is JobState.SUCCEEDED for job in gone)
    assert [job.id for job in bench.ledger.expire(job_ttl_s=0, limit=1)] == [ended[2].job_id]
    assert bench.ledger.counts()[JobState.SUCCEEDED] == 0
    bench.clock.advance(10**6)
    assert bench.ledger.expire(job_ttl_s=60) == []
    assert bench.state(waiting.job_id) == "queued"


def test_depths_say_how_many_wait_and_how_long(bench: Bench) -> None:
    first = bench.submit()
    bench.clock.advance(2)
    bench.submit()
    depths = bench.ledger.depths(["gpu", "cpu"])
    assert (depths["cpu"].waiting, depths["cpu"].oldest_age_s) == (2, 2.0)
    assert (depths["gpu"].waiting, depths["gpu"].oldest_age_s) == (0, None)
    assert bench.claim(first)
    assert bench.ledger.depths(["cpu"])["cpu"].oldest_age_s == 0.0
    assert bench.ledger.depths([]) == {}


def test_a_claim_that_is_repeated_tells_how_far_the_job_is(bench: Bench) -> None:
    message = bench.running()
    step = Progress(done=1, total=2)
    assert bench.ledger.progress(message.job_id, 1, step)
    again = bench.ledger.claim(message.job_id, 1, worker="worker", lease_s=6)
    assert again is not None and again.job.record.progress == step
