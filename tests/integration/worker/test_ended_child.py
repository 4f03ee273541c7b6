"""What a worker's process held when it died is taken back at once, by its worker's name; what others hold is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from jobs.errors import TimeLimitExceeded, WorkerLost
from jobs.ledger.ended_child import EndedChildren, TakenBack
from jobs.ledger.messages import JobMessage
from jobs.queue import make_celery, message_format
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from jobs.states import JobState
from tests.support.ledger.ledgers import CLOCK_LUA, Bench, redis_bench, settings_for


@dataclass
class Ended:
    """A ledger, and the end of processes there."""

    jobs: Bench
    children: EndedChildren

    def take_back(
        self, worker: str = "worker", *, max_attempts: int = 3, messages: tuple[str, ...] = ()
    ) -> list[TakenBack]:
        return list(self.children.take_back(worker, max_attempts=max_attempts, messages=messages))

    def error(self, job_id: str) -> str | None:
        error = self.jobs.ledger.get(job_id).record.error
        return error.type if error else None


@pytest.fixture
def ended(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Ended]:
    with (
        redis_bench(valkey, key_prefix) as jobs,
        connect(settings_for(valkey, key_prefix)) as client,
        make_celery(Settings(key_prefix=key_prefix)) as app,
    ):
        messages = message_format(app)
        yield Ended(jobs, EndedChildren(client, prefix=key_prefix, messages=messages, clock=CLOCK_LUA))


def test_a_job_comes_back_at_once_and_late_writes_are_refused(ended: Ended) -> None:
    message = ended.jobs.running(lease_s=600)
    assert ended.take_back() == [TakenBack(message.job_id, 1, JobState.QUEUED)]
    assert not ended.jobs.succeed(message)
    assert not ended.jobs.ledger.renew(message.job_id, 1, lease_s=600)
    job = ended.jobs.ledger.get(message.job_id)
    assert (job.record.state, job.record.attempt, job.record.queue_position) == (JobState.QUEUED, 2, 1)
    assert ended.take_back() == []
    assert ended.jobs.ledger.claim(message.job_id, 2, worker="worker", lease_s=6)


def test_jobs_of_other_workers_and_jobs_that_wait_are_left_alone(ended: Ended) -> None:
    other, waiting = ended.jobs.running(), ended.jobs.submit()
    assert ended.take_back("work") == ended.take_back("worker2") == []
    assert ended.jobs.succeed(other)
    assert ended.jobs.ledger.claim(waiting.job_id, 1, worker="worker2", lease_s=6)
    assert ended.take_back() == []


def test_a_job_that_kills_its_workers_is_given_up_and_a_dead_letter(ended: Ended) -> None:
    message = ended.jobs.submit()
    for attempt in (1, 2, 3):
        assert ended.jobs.ledger.claim(message.job_id, attempt, worker="worker", lease_s=600)
        (taken,) = ended.take_back()
        assert taken.state is (JobState.QUEUED if attempt < 3 else JobState.FAILED)
    assert ended.error(message.job_id) == WorkerLost.type
    assert ended.jobs.ledger.dead_letters() == [message.job_id]


def test_whoever_shared_the_process_has_a_second_run(ended: Ended) -> None:
    """Which of them ended it is not known: each is tried alone then, and only one that does it again is given up."""
    together = [ended.jobs.running() for _ in range(3)]
    assert [taken.state for taken in ended.take_back(max_attempts=1)] == [JobState.QUEUED] * 3
    for message in together[:2]:
        assert ended.jobs.ledger.claim(message.job_id, 2, worker="worker", lease_s=6)
        assert ended.jobs.succeed(JobMessage(message.job_id, 2, "cpu", 0, 1.0))
    assert ended.jobs.ledger.claim(together[2].job_id, 2, worker="worker", lease_s=6)
    assert [taken.state for taken in ended.take_back(max_attempts=1)] == [JobState.FAILED]


def test_a_process_that_was_ended_for_a_job_s_time_is_no_reason_to_run_it_again(ended: Ended) -> None:
    message = ended.jobs.running(lease_s=600, timeout_s=10)
    ended.jobs.clock.advance(11)
    assert ended.jobs.ledger.renew(message.job_id, 1, lease_s=6)
    assert [taken.state for taken in ended.take_back()] == [JobState.FAILED]
    assert ended.error(message.job_id) == TimeLimitExceeded.type


def test_a_message_that_died_with_the_process_is_sent_again_where_its_job_waits(ended: Ended) -> None:
    waiting, claimed = ended.jobs.submit(), ended.jobs.running()
    assert ended.jobs.succeed(claimed)
    names = tuple(f"{message.job_id}.1" for message in (waiting, claimed))
    assert ended.take_back(messages=(*names, f"{waiting.job_id}.2", "no name", "job_gone.1")) == [
        TakenBack(waiting.job_id, 1, JobState.QUEUED)
    ]
    assert ended.jobs.ledger.republish(waiting) is None, "it has another number by now"
    assert ended.jobs.ledger.claim(waiting.job_id, 1, worker="worker", lease_s=6)
