"""A message and the claim of its job in one step, on a real Redis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis
from pydantic import SecretStr

from jobs.ledger.claims.by_message import ClaimTerms, NextMessage
from jobs.ledger.limits import Beside
from jobs.models import JobError
from jobs.queue import broker_prefix, make_ledger
from jobs.redis.acl import password_rule, user_rules
from jobs.redis.client import connect
from jobs.redis.connections import Connections
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from tests.support.workers.workers import WorkerBench
from worker.queues import next_messages
from worker.queues.next_messages import NextJob, NextMessages

ONES = np.ones((2, 2), np.float32)
WORKER, LONG_S = "host/cpu/1", 600.0


@pytest.fixture
def bench(valkey: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerBench]:
    bench = WorkerBench(valkey, tmp_path)  # no worker is started: the tests are it
    bench.ledger.scripts.load_functions()
    monkeypatch.setattr(next_messages, "IDLE_S", 0.05)
    yield bench
    bench.client.close()


def terms() -> ClaimTerms:
    return ClaimTerms(WORKER, 60.0, max_jobs=16, beside=Beside(2))


def messages(bench: WorkerBench) -> NextMessages:
    return NextMessages(bench.settings, bench.ledger, terms)


def came(bench: WorkerBench, timeout_s: float = LONG_S) -> list[NextJob]:
    return list(messages(bench).after(timeout_s, "cpu", []))


def claimed_ids(job: NextJob) -> list[str]:
    assert job.claimed is not None
    return [each.job.id for each in job.claimed]


def state(bench: WorkerBench, job_id: str) -> JobState:
    return bench.ledger.get(job_id).record.state


def lists(bench: WorkerBench) -> set[bytes]:
    found: Any = bench.client.keys(f"{broker_prefix(bench.settings)}*")
    return set(found)


def test_the_job_of_a_message_is_claimed_with_it(bench: WorkerBench) -> None:
    job_id = bench.submit(ONES, ONES)
    (job,) = came(bench)
    assert (job.job_id, job.attempt, claimed_ids(job)) == (job_id, 1, [job_id])
    assert bench.ledger.get(job_id).record.state is JobState.RUNNING
    assert bench.ledger.claimed_by(WORKER) == [(job_id, 1)]
    assert bench.ledger.renew(job_id, 1, lease_s=60.0)
    assert lists(bench) == set()


def test_the_same_step_looks_into_other_queues(bench: WorkerBench) -> None:
    about: dict[str, Any] = {"wait_s": 0.01, "max_timeout_s": LONG_S, "others": ["bench-x", "bench-y"]}
    job_id = bench.submit(ONES, ONES)
    took = bench.ledger.claim_next("cpu", terms(), **about)
    assert [each.job.id for each in took.claimed or []] == [job_id] and not took.others_wait
    bench.client.lpush(f"{broker_prefix(bench.settings)}bench-y", b"a message")
    assert bench.ledger.claim_next("cpu", terms(), **about) == NextMessage(None, None, others_wait=True)


def test_others_are_claimed_with_it(bench: WorkerBench) -> None:
    jobs = [bench.submit(ONES, ONES, in_record=True) for _ in range(3)]
    (job,) = came(bench)
    assert claimed_ids(job) == jobs
    assert lists(bench) == set()


def test_a_retry_is_claimed_by_itself(bench: WorkerBench) -> None:
    """It is to run alone, which has to be seen to before."""
    job_id = bench.submit(ONES, ONES)
    assert bench.ledger.claim(job_id, 1, worker=WORKER, lease_s=60.0)
    assert bench.ledger.fail(job_id, 1, JobError(type="worker_lost", detail="Gone."), max_attempts=2)
    assert came(bench) == [NextJob(job_id, 1), NextJob(job_id, 2)]  # the first attempt's message is stale
    assert state(bench, job_id) is JobState.QUEUED


def test_a_job_that_was_called_off_is_not_claimed(bench: WorkerBench) -> None:
    job_id = bench.submit(ONES, ONES)
    bench.ledger.cancel(job_id)
    assert came(bench) == [NextJob(job_id, 1)]
    assert state(bench, job_id) is JobState.CANCELLED


def test_a_job_that_runs_is_not_claimed_again(bench: WorkerBench) -> None:
    """As by a message that was sent twice, to the worker that has it under way."""
    job_id = bench.submit(ONES, ONES)
    name = f"{broker_prefix(bench.settings)}cpu"
    bench.client.rpush(name, *bench.client.lrange(name, 0, -1))
    first, second = came(bench)
    assert claimed_ids(first) == [job_id]
    assert second == NextJob(job_id, 1)


def test_a_job_with_more_time_than_the_task_has_goes_back(bench: WorkerBench) -> None:
    job_id = bench.submit(ONES, ONES, timeout_s=60.0)
    assert came(bench, timeout_s=59.0) == []
    assert state(bench, job_id) is JobState.QUEUED
    assert len(came(bench, timeout_s=61.0)) == 1


def test_nothing_is_claimed_while_the_queue_is_paused(bench: WorkerBench) -> None:
    job_id = bench.submit(ONES, ONES)
    bench.client.hset(f"{bench.settings.key_prefix}counts", "paused", 1)
    assert came(bench) == []
    assert state(bench, job_id) is JobState.QUEUED


def test_a_message_that_was_left_does_not_take_the_place_of_the_next(bench: WorkerBench) -> None:
    """Redis may crash between the two commands, and its file have the first one only."""
    bench.client.lpush(f"{broker_prefix(bench.settings)}taken:{WORKER}", b"left")
    jobs = [bench.submit(ONES, ONES) for _ in range(3)]
    assert [each for job in came(bench) for each in claimed_ids(job)] == jobs
    assert {state(bench, each) for each in jobs} == {JobState.RUNNING}
    assert lists(bench) == set()


def test_without_functions_the_usual_way_is_accepted(bench: WorkerBench) -> None:
    jobs = [bench.submit(ONES, ONES) for _ in range(2)]
    bench.client.function_flush()
    bench.client.script_flush()
    came_of = messages(bench).after(LONG_S, "cpu", [])
    assert next(came_of) == NextJob(jobs[0], 1)
    assert bench.ledger.claim(jobs[0], 1, worker=WORKER, lease_s=60.0)  # from now on its script is known
    assert claimed_ids(next(came_of)) == [jobs[1]]


def test_a_user_who_may_not_move_messages_takes_them_as_before(bench: WorkerBench) -> None:
    prefix = bench.settings.key_prefix
    rules = user_rules("worker", prefix, "secret").replace("+blmove", "").split()
    bench.client.execute_command("ACL", "SETUSER", "fewer", *rules[1:])  # type: ignore[no-untyped-call]
    assert password_rule("secret") in rules
    url = bench.server.url.replace("redis://:", "redis://fewer:").replace(bench.server._password, "secret")
    settings = bench.settings.model_copy(update={"redis_url": SecretStr(url)})
    with connect(settings) as client:
        job_id = bench.submit(ONES, ONES)
        theirs = NextMessages(settings, make_ledger(settings, client), terms)
        assert list(theirs.after(LONG_S, "cpu", [])) == [NextJob(job_id, 1)]
    bench.client.execute_command("ACL", "DELUSER", "fewer")  # type: ignore[no-untyped-call]


def test_a_claim_whose_answer_was_lost_is_found_again(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = bench.submit(ONES, ONES)
    ask_each = Connections.ask_each

    def lost(connections: Connections, *commands: Any) -> list[Any]:
        ask_each(connections, *commands)
        raise redis.ConnectionError("lost")

    with monkeypatch.context() as patched:
        patched.setattr(Connections, "ask_each", lost)
        assert came(bench) == [NextJob(job_id, 1)]
    again = bench.ledger.claim_batch(job_id, 1, **terms()._asdict())
    assert [each.job.id for each in again] == [job_id]
