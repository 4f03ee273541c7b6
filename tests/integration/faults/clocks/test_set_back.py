"""Redis' clock is set back by an hour, as where NTP puts a clock right: nothing is stuck, refused or deleted for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jobs.errors import JobNotFound, NoRoomForProduct, QuotaExceeded, TimeLimitExceeded, VerificationFailed
from jobs.fleet.registry import WorkerRegistry
from jobs.ledger.codec import job_error
from jobs.ledger.interface import IdempotencyKey
from jobs.ledger.limits import Limits, Quota, cost_of
from jobs.ledger.redis import RedisLedger
from jobs.ledger.totals import served_of
from jobs.models import ANONYMOUS
from jobs.queue import broker_prefix
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from jobs.sweeper.sweeper import LOCK_S, Sweeper, Swept
from tests.support.ledger.ledgers import CLOCK_LUA, Bench, new_job, outcome, redis_bench, redis_ledger, settings_for
from tools.harness.api import worker_info

STEP_S = 3600.0
MANY = 10**6
KEY = IdempotencyKey("key", "f")


class Floor:
    """A ledger in Redis, whose clock is set, and sweepers whose own clock is not."""

    def __init__(self, server: EmbeddedServer, prefix: str, bench: Bench) -> None:
        self.settings, self.prefix, self.bench = settings_for(server, prefix), prefix, bench
        self.stepped_s = 0.0

    @property
    def client(self) -> Any:
        return self.bench.clock.client

    @property
    def registry(self) -> WorkerRegistry:
        return WorkerRegistry(self.client, prefix=self.prefix, clock=CLOCK_LUA)

    def sweeper(self) -> Sweeper:
        return Sweeper(
            self.bench.ledger,
            self.client,
            self.settings,
            sweep_matrices=lambda: 0,
            clock=lambda: self.bench.clock.now_us / 1e6 - self.stepped_s,
            redis_clock=CLOCK_LUA,
        )

    def step(self, seconds: float) -> None:
        self.stepped_s += seconds
        self.bench.clock.advance(seconds)

    def sweeps(self, sweeper: Sweeper, seconds: float) -> Swept:
        """The sum of what they did with messages and leases."""
        republished = recovered = 0
        for _ in range(round(seconds / self.settings.sweep_s)):
            self.bench.clock.advance(self.settings.sweep_s)
            swept = sweeper.sweep_once()
            assert swept is not None
            republished, recovered = republished + swept.republished, recovered + swept.recovered
        return Swept(republished, recovered)

    def lose_message(self) -> None:
        assert self.client.rpop(f"{broker_prefix(self.settings)}cpu")


@pytest.fixture
def floor(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Floor]:
    with redis_bench(valkey, key_prefix) as bench:
        yield Floor(valkey, key_prefix, bench)


# ---- dead workers ----
@pytest.mark.parametrize("is_seen", [True, False])
def test_the_job_of_a_dead_worker_is_taken_back_in_time(floor: Floor, is_seen: bool) -> None:
    """Whether a sweeper saw the step, or started after it."""
    job_id = floor.bench.running(lease_s=floor.settings.lease_s).job_id
    floor.lose_message()
    sweeper = floor.sweeper()
    if is_seen:
        assert floor.sweeps(sweeper, 3) == Swept()
    floor.step(-STEP_S)
    assert floor.sweeps(sweeper, floor.settings.lease_s + 1) == Swept(recovered=1)
    assert floor.bench.ledger.claim(job_id, 2, worker="other", lease_s=6)


def test_a_dead_worker_counts_as_live_no_longer_than_otherwise(floor: Floor) -> None:
    floor.registry.beat(worker_info("dead"), floor.settings.worker_ttl_s)
    floor.registry.beat(worker_info("alive"), floor.settings.worker_ttl_s)
    floor.step(-STEP_S)
    sweeper = floor.sweeper()
    floor.sweeps(sweeper, floor.settings.worker_ttl_s - 1)
    assert [worker.id for worker in floor.registry.live()] == ["alive", "dead"]
    floor.registry.beat(worker_info("alive"), floor.settings.worker_ttl_s)
    floor.sweeps(sweeper, 2)
    assert [worker.id for worker in floor.registry.live()] == ["alive"]


def test_who_holds_a_lock_or_a_key_no_more_keeps_nobody_out(floor: Floor) -> None:
    hour_ms = round(STEP_S * 1000)
    floor.client.set(f"{floor.prefix}lock:sweeper", "dead", px=hour_ms)
    assert floor.sweeper().sweep_once() == Swept()
    assert floor.client.pttl(f"{floor.prefix}lock:sweeper") <= LOCK_S * 1000
    assert floor.bench.ledger.hold_key(ANONYMOUS, "key", holder="dead", hold_s=STEP_S) is None
    assert floor.bench.ledger.hold_key(ANONYMOUS, "key", holder="other", hold_s=6) is None


# ---- jobs that wait ----
def test_a_message_that_was_lost_is_sent_again_in_time(floor: Floor) -> None:
    job_id = floor.bench.submit().job_id
    floor.lose_message()
    floor.step(-STEP_S)
    assert floor.sweeps(floor.sweeper(), 5) == Swept(republished=1)
    assert floor.bench.ledger.claim(job_id, 1, worker="w", lease_s=6)


def test_a_wait_for_another_worker_ends(floor: Floor) -> None:
    job_id = floor.bench.submit().job_id
    floor.bench.ledger.refill({"cpu": 2})
    assert floor.bench.ledger.claim(job_id, 1, worker="one", lease_s=60)
    assert floor.bench.ledger.fail(job_id, 1, job_error(VerificationFailed), max_attempts=9)
    assert not floor.bench.ledger.claim(job_id, 2, worker="one", lease_s=60)
    floor.step(-STEP_S)
    assert floor.bench.ledger.claim(job_id, 2, worker="one", lease_s=60)


def test_a_job_looks_for_room_no_longer_than_otherwise(floor: Floor) -> None:
    job_id = floor.bench.running().job_id
    states = []
    for attempt in range(1, 4):
        states.append(floor.bench.ledger.give_back(job_id, attempt, job_error(NoRoomForProduct), timeout_s=60))
        floor.step(-STEP_S if attempt == 1 else 0)
        floor.bench.ledger.claim(job_id, attempt + 1, worker="w", lease_s=60)
        floor.bench.clock.advance(61 if attempt == 2 else 0)
    assert states == [JobState.QUEUED, JobState.QUEUED, JobState.FAILED]


@pytest.mark.parametrize("step_s", [STEP_S, -STEP_S])
def test_time_without_room_counts_by_the_worker_s_clock(floor: Floor, step_s: float) -> None:
    job_id, states = floor.bench.running().job_id, []
    for attempt in range(1, 6):
        floor.step(step_s if attempt == 2 else 0)
        floor.bench.clock.advance(20)
        states.append(
            floor.bench.ledger.give_back(job_id, attempt, job_error(NoRoomForProduct), timeout_s=70, ran_s=20)
        )
        floor.bench.ledger.claim(job_id, attempt + 1, worker="w", lease_s=6)
    assert states == [*[JobState.QUEUED] * 4, JobState.FAILED]


def test_the_oldest_job_has_waited_at_least_no_time(floor: Floor) -> None:
    floor.bench.submit()
    floor.step(-STEP_S)
    depth = floor.bench.ledger.depths(["cpu"])["cpu"]
    assert (depth.waiting, depth.oldest_age_s) == (1, 0)


def test_a_minute_s_quota_is_paid_off_in_a_minute(floor: Floor) -> None:
    ledger, quota = floor.bench.ledger, Quota(flops_per_minute=4 * cost_of(new_job()).flops)
    assert isinstance(ledger, RedisLedger)
    ledger._quota_of = lambda _owner: quota
    for _ in range(4):
        ledger.submit(new_job("alice"), max_queued=MANY, max_queued_per_owner=MANY)
    floor.step(-STEP_S)
    for _ in range(3):
        with pytest.raises(QuotaExceeded) as refused:
            ledger.submit(new_job("alice"), max_queued=MANY, max_queued_per_owner=MANY)
        assert refused.value.retry_after_s == 15
    floor.bench.clock.advance(15)
    ledger.submit(new_job("alice"), max_queued=MANY, max_queued_per_owner=MANY)


# ---- jobs that end ----
@pytest.mark.parametrize("set_while", ["queued", "running"])
def test_sums_of_times_never_fall_and_jobs_go_on_ending(floor: Floor, set_while: str) -> None:
    message = floor.bench.submit()
    floor.step(-STEP_S if set_while == "queued" else 0)
    assert floor.bench.claim(message)
    floor.step(-STEP_S if set_while == "running" else 0)
    assert floor.bench.succeed(message)
    timing = floor.bench.ledger.get(message.job_id).record.timing
    assert timing and (timing.queue_ms, timing.total_ms) == (0, 0)
    for kernel in ("another", "cpu_blas"):
        again = floor.bench.running()
        floor.bench.clock.advance(1)
        assert floor.bench.ledger.succeed(again.job_id, 1, outcome(kernel))
    served = served_of(floor.client, floor.prefix)["cpu_blas"]
    assert (served.products, served.total_ns, served.queue_ns) == (2, 10**9, 0)


def test_sums_that_fell_once_are_added_to(floor: Floor) -> None:
    floor.client.hset(f"{floor.prefix}counts", "products:cpu_blas", "1 1 -3600000000 -3600000000 1 1 1")
    assert floor.bench.succeed(floor.bench.running())
    assert served_of(floor.client, floor.prefix)["cpu_blas"].products == 2


def test_the_time_of_jobs_that_failed_never_falls(floor: Floor) -> None:
    message = floor.bench.running()
    floor.step(-STEP_S)
    assert floor.bench.ledger.fail(message.job_id, 1, job_error(TimeLimitExceeded))
    served = served_of(floor.client, floor.prefix)["auto"]
    assert (served.failed, served.failed_ns) == (1, 0)


def test_where_there_are_too_many_those_go_that_ended_before_it(floor: Floor) -> None:
    most = 20
    ledger = redis_ledger(floor.client, floor.prefix, clock=CLOCK_LUA, max_ended=Limits(MANY, most))

    def ended(count: int) -> list[str]:
        jobs = []
        for _ in range(count):
            jobs.append(floor.bench.submit().job_id)
            assert ledger.claim(jobs[-1], 1, worker="w", lease_s=6)
            floor.bench.clock.advance(0.001)
            assert ledger.succeed(jobs[-1], 1, outcome())
        return jobs

    ended(most)
    floor.step(-STEP_S)
    floor.sweeps(floor.sweeper(), 1)
    for job_id in (new := ended(most)):
        ledger.submit(new_job(), max_queued=MANY, max_queued_per_owner=MANY)
        try:
            ledger.get(job_id)
        except JobNotFound:
            pytest.fail(f"of {len(new)} new jobs one was deleted")


def test_a_new_binding_is_not_the_oldest(floor: Floor) -> None:
    ledger = redis_ledger(floor.client, floor.prefix, clock=CLOCK_LUA, max_ended=Limits(MANY, 3))
    for number in range(3):
        ledger.bind_key(ANONYMOUS, IdempotencyKey(f"{number}", "f"), "m_1")
    floor.step(-STEP_S)
    ledger.bind_key(ANONYMOUS, KEY, "m_2")
    assert ledger.bound_job(ANONYMOUS, KEY) == "m_2"
    assert ledger.bound_job(ANONYMOUS, IdempotencyKey("0", "f")) is None


# ---- time limits ----
@pytest.mark.parametrize("step_s", [STEP_S, -STEP_S])
def test_a_job_has_its_time_by_its_worker_s_clock(floor: Floor, step_s: float) -> None:
    job_id = floor.bench.running(timeout_s=10).job_id
    floor.lose_message()
    sweeper = floor.sweeper()
    assert floor.sweeps(sweeper, 3) == Swept()
    floor.step(step_s)
    for second in range(4, 19):
        assert floor.bench.ledger.renew(job_id, 1, lease_s=6, ran_s=second)
        assert floor.sweeps(sweeper, 1) == Swept()
    assert floor.bench.ledger.renew(job_id, 1, lease_s=6, ran_s=20)
    floor.sweeps(sweeper, 3)
    error = floor.bench.ledger.get(job_id).record.error
    assert error and error.type == TimeLimitExceeded.type


def test_a_worker_that_dies_after_a_step_had_not_run_out_of_time(floor: Floor) -> None:
    job_id = floor.bench.running(timeout_s=10).job_id
    floor.step(STEP_S)
    assert floor.bench.ledger.renew(job_id, 1, lease_s=6, ran_s=2)
    floor.bench.clock.advance(7)
    taken = floor.bench.ledger.take_back(job_id, 1, max_attempts=3)
    assert taken and taken.state is JobState.QUEUED
