"""What is counted of jobs: once for each change, and never less."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from jobs.errors import DeviceFault, OperandMissing
from jobs.ledger.acceptance import Acceptance
from jobs.ledger.codec import job_error
from jobs.ledger.interface import Success
from jobs.ledger.totals import Totals, totals_of
from jobs.redis.embedded import EmbeddedServer
from tests.support.ledger.ledgers import Bench, outcome, redis_bench

NONE = dict.fromkeys(
    (
        "device_fault",
        "no_room_for_product",
        "operand_damaged",
        "time_limit_exceeded",
        "verification_failed",
        "worker_lost",
    ),
    0,
)


@pytest.fixture
def bench(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Bench]:
    with redis_bench(valkey, key_prefix) as each:
        yield each


def totals(bench: Bench, key_prefix: str) -> Totals:
    assert isinstance(bench.clock.client, redis.Redis)
    return totals_of(bench.clock.client, key_prefix)


def test_nothing_has_happened_yet(bench: Bench, key_prefix: str) -> None:
    bench.submit()
    assert totals(bench, key_prefix) == Totals({"cancelled": 0, "failed": 0, "succeeded": 0}, NONE, 0, 0)


def test_each_end_counts_once_and_stays_when_the_job_is_gone(bench: Bench, key_prefix: str) -> None:
    done, called_off, refused = bench.running(), bench.submit(), bench.running()
    assert bench.succeed(done) and bench.succeed(done)  # the second is a repeat, which changes nothing
    bench.ledger.cancel(called_off.job_id)
    bench.ledger.cancel(called_off.job_id)
    bench.ledger.fail(refused.job_id, 1, job_error(OperandMissing))
    for message in (done, called_off, refused):
        bench.ledger.delete(message.job_id)
    told = totals(bench, key_prefix)
    assert told.ended == {"succeeded": 1, "cancelled": 1, "failed": 1}
    assert told.attempts_failed == NONE | {"operand_missing": 1}
    assert (told.dead_lettered, told.dead) == (0, 0)


def test_a_success_that_one_step_reports_twice_counts_once(bench: Bench, key_prefix: str) -> None:
    done, other = bench.running(), bench.running()
    successes = [Success(each.job_id, 1, outcome()) for each in (done, other, done)]
    assert bench.ledger.succeed_all(successes) == [Acceptance.ACCEPTED] * 3
    assert totals(bench, key_prefix).ended == {"succeeded": 2, "cancelled": 0, "failed": 0}


def test_each_failed_attempt_counts_and_a_retry_takes_nothing_back(bench: Bench, key_prefix: str) -> None:
    message = bench.running(lease_s=6)
    bench.clock.advance(7)
    assert bench.ledger.take_back(message.job_id, 1, max_attempts=2)
    assert bench.ledger.take_back(message.job_id, 1, max_attempts=2) is None
    assert bench.ledger.claim(message.job_id, 2, worker="worker", lease_s=6)
    bench.ledger.fail(message.job_id, 2, job_error(DeviceFault), max_attempts=2)
    told = totals(bench, key_prefix)
    assert told.attempts_failed == NONE | {"worker_lost": 1, "device_fault": 1}
    assert (told.ended["failed"], told.dead_lettered, told.dead) == (1, 1, 1)
    bench.ledger.redrive(message.job_id)
    assert totals(bench, key_prefix) == Totals(told.ended, told.attempts_failed, dead_lettered=1, dead=0)
