"""Which attempts are told, by whom, and as what: each once, whatever became of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from jobs.ledger.interface import Claimed
from jobs.redis.clock import microseconds
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from jobs.tracing.spans import QUEUE, span_id
from tests.support.ledger.ledgers import Bench, redis_bench
from tests.support.otlp import TRACE, Told, asked_by
from tests.support.workers.copying import FaultyRunner, flip
from tests.support.workers.workers import WorkerBench
from worker.cpu.runner import CpuRunner
from worker.process.child import Child
from worker.process.lease import LeaseKeeper
from worker.tracing.launches import Launches

SETTINGS = Settings()


@pytest.fixture
def redis(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Bench]:
    with redis_bench(valkey, key_prefix) as bench, asked_by():
        yield bench


def claimed(bench: Bench) -> Claimed:
    message = bench.submit()
    found = bench.ledger.claim(message.job_id, 1, worker="worker", lease_s=6)
    assert found is not None
    return found


def test_the_ledger_tells_of_an_attempt_that_it_took_from_its_worker(redis: Bench) -> None:
    job_id = redis.submit().job_id
    queued_us = redis.clock.now_us
    redis.clock.advance(2)
    assert redis.ledger.claim(job_id, 1, worker="worker", lease_s=6)
    redis.clock.advance(10)
    taken = redis.ledger.take_back(job_id, 1, max_attempts=3)
    assert taken is not None and taken.lost is not None
    told = Told()
    taken.lost.tell(told, job_id, 1)
    (wait,) = told.named(QUEUE)
    assert (wait.start_ns, wait.end_ns) == (queued_us * 1000, (queued_us + microseconds(2)) * 1000)
    assert told.ends() == [(1, "worker_lost")] and told.named("attempt")[0].id == span_id(job_id, 1)


def test_an_attempt_whose_time_was_up_says_so(redis: Bench) -> None:
    message, told = redis.running(timeout_s=10), Told()
    redis.clock.advance(11)
    assert redis.ledger.renew(message.job_id, 1, lease_s=6)
    redis.clock.advance(20)
    taken = redis.ledger.take_back(message.job_id, 1, max_attempts=3)
    assert taken is not None and taken.lost is not None
    taken.lost.tell(told, message.job_id, 1)
    assert told.ends() == [(1, "time_limit_exceeded")]


def test_a_cancel_is_told_and_what_was_taken_back_is_left_to_who_did(redis: Bench) -> None:
    told, cancelled, lost = Told(), claimed(redis), claimed(redis)
    launches = Launches(told, redis.ledger)
    with launches.under_way([cancelled], (1, 2)):
        redis.ledger.cancel(cancelled.job.id)
    redis.clock.advance(10)
    with launches.under_way([lost], (1, 2)):
        redis.ledger.take_back(lost.job.id, 1, max_attempts=3)
    assert told.ends() == [(1, "cancelled")]


def test_an_attempt_that_was_ended_for_another_s_sake_is_told(redis: Bench) -> None:
    told, ended, held = Told(), Event(), claimed(redis)
    keeper = LeaseKeeper(redis.ledger, SETTINGS, launches=Launches(told, redis.ledger), end=lambda code: ended.set())
    with keeper.hold([held]):
        keeper.end_child(66, "its device faulted")
    assert ended.is_set() and told.ends() == [(1, "worker_lost")]


def test_each_attempt_of_a_job_is_told_once_with_its_own_end(valkey: EmbeddedServer, tmp_path: Path) -> None:
    bench, told = WorkerBench(valkey, tmp_path), Told()
    ones = np.ones((3, 3), np.float32)
    with asked_by():
        job_id = bench.submit(ones, ones)
    wrong = FaultyRunner(bench.settings, after_product=lambda c: flip(c, position=3))
    for attempt, runner in ((1, wrong), (2, CpuRunner(bench.settings))):
        child = Child(bench.settings, runner, bench.ledger, bench.store, told)
        child.run(job_id, attempt)
        child.heartbeat.stop()
    bench.client.close()
    assert told.ends() == [(1, "verification_failed"), (2, None)]
    assert {trace for trace, _ in told.spans} == {TRACE}
    first, second = told.named("attempt")
    assert [link.span_id for link in second.links] == [first.id]
    assert second.attributes["matmul.kernel"] == "cpu_blas"
    phases = [span.name for _, span in told.spans if span.parent == second.id]
    assert phases == ["claim", "upload", "kernel", "check", "download", "end"]
