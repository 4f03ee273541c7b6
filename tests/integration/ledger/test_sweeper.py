"""The sweeper: what is lost comes back, what merely waits is left alone, and one process at a time sweeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest
from structlog.testing import capture_logs

from jobs.errors import JobNotFound, StoreFull, StoreUnavailable
from jobs.ledger.messages import JobMessage
from jobs.queue import broker_prefix, waiting_messages
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from jobs.sweeper.sweeper import LOCK_S, Sweeper, Swept
from jobs.tracing.spans import Tracing
from tests.support.ledger.ledgers import CLOCK_LUA, Bench, new_job, redis_bench, settings_for
from tests.support.otlp import TRACE, Told, asked_by

NOTHING = Swept()


@dataclass
class Floor:
    """A ledger and a broker on one Redis, and sweepers whose time is the ledger's."""

    bench: Bench
    settings: Settings
    stepped_s: float = 0.0  # by which Redis' clock was set forward
    matrices: list[int] = field(default_factory=list)  # what the next sweeps of the matrix store will remove

    @property
    def client(self) -> Any:
        return self.bench.clock.client

    def sweeper(self, tracing: Tracing | None = None) -> Sweeper:
        return Sweeper(
            self.bench.ledger,
            self.client,
            self.settings,
            sweep_matrices=lambda: self.matrices.pop(0) if self.matrices else 0,
            clock=lambda: self.bench.clock.now_us / 1e6 - self.stepped_s,
            redis_clock=CLOCK_LUA,
            tracing=tracing,
        )

    def submit(self) -> JobMessage:
        """A job with its message in the broker."""
        return self.bench.submit()

    def running(self, lease_s: float) -> JobMessage:
        """A job that a worker fetched and claimed."""
        message = self.bench.running(lease_s=lease_s)
        self.lose_message()
        return message

    def lose_message(self) -> None:
        """The first message in the queue goes, as when a worker dies between fetching it and claiming its job."""
        assert self.client.rpop(f"{broker_prefix(self.settings)}cpu")

    def waiting(self) -> int:
        return waiting_messages(self.client, self.settings, "cpu")

    def sweeps(self, sweeper: Sweeper, seconds: float) -> Swept:
        """Sweeps for that long; the sum of what they did."""
        total = [0, 0, 0, 0]
        for _ in range(round(seconds / self.settings.sweep_s)):
            self.bench.clock.advance(self.settings.sweep_s)
            swept = sweeper.sweep_once()
            assert swept is not None
            done = (swept.republished, swept.recovered, swept.expired, swept.matrices)
            total = [a + b for a, b in zip(total, done, strict=True)]
        return Swept(*total)


@pytest.fixture
def floor(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Floor]:
    settings = settings_for(valkey, key_prefix).model_copy(update={"lease_s": 600.0})  # the longest of any test here
    with redis_bench(valkey, key_prefix) as bench:
        yield Floor(bench, settings)


# ---- whose jobs they are ----
def test_log_lines_and_spans_of_what_comes_back_name_the_request(floor: Floor) -> None:
    told = Told()
    sweeper = floor.sweeper(told)
    with asked_by(), capture_logs() as logs:
        lost = floor.submit()
        floor.lose_message()
        floor.sweeps(sweeper, 20)
        silent = floor.running(lease_s=1)
        floor.sweeps(sweeper, 20)
    assert told.ends() == [(1, "worker_lost")]
    assert {line["job"] for line in logs} == {silent.job_id, lost.job_id}
    assert {(line["trace_id"], line["request_id"]) for line in logs} == {(TRACE.trace_id, TRACE.request_id)}


# ---- damaged rows ----
def test_a_row_that_no_script_can_work_on_stops_no_other(floor: Floor) -> None:
    damaged, silent = floor.running(lease_s=1), floor.running(lease_s=1)
    floor.client.hset(f"{floor.settings.key_prefix}job:{damaged.job_id}", "seen", "then")
    floor.client.zadd(f"{floor.settings.key_prefix}leases", {"job_ghost": 1})
    with capture_logs() as logs:
        assert floor.sweeps(floor.sweeper(), 12).recovered == 1
    assert {line["job"] for line in logs if line["log_level"] == "error"} == {damaged.job_id}
    assert floor.bench.state(silent.job_id) == "queued"


# ---- messages ----
def test_jobs_that_wait_for_one_are_all_settled_by_one_sweep(floor: Floor) -> None:
    """However many they are; a job that only waits has lost no message."""
    first = floor.submit()
    for _ in range(200):
        floor.bench.ledger.submit(new_job(a=first.job_id), max_queued=999, max_queued_per_owner=999)
    sweeper = floor.sweeper()
    assert floor.sweeps(sweeper, 10) == NOTHING and floor.waiting() == 1
    assert floor.bench.claim(first) and floor.bench.succeed(first)
    assert floor.waiting() == 1 + 64
    floor.sweeps(sweeper, floor.settings.sweep_s)
    assert floor.waiting() == 1 + 200


def test_what_merely_waits_is_left_alone(floor: Floor) -> None:
    waiting = [floor.submit() for _ in range(3)]
    sweeper = floor.sweeper()
    assert floor.sweeps(sweeper, 60) == NOTHING
    floor.lose_message()  # fetched …
    assert floor.bench.claim(waiting[0])  # … and claimed
    assert floor.bench.ledger.renew(waiting[0].job_id, 1, lease_s=600)
    assert floor.sweeps(sweeper, 60) == NOTHING
    assert floor.waiting() == 2


def test_a_message_lost_before_others_is_sent_again_once(floor: Floor) -> None:
    lost = floor.submit()
    floor.bench.clock.advance(3)
    second, _ = floor.submit(), floor.submit()
    sweeper = floor.sweeper()
    floor.lose_message()
    floor.lose_message()
    assert floor.bench.claim(second, lease_s=600)
    assert floor.sweeps(sweeper, 10) == Swept(republished=1)
    assert floor.waiting() == 2
    assert floor.bench.claim(lost)


def test_the_only_message_lost_is_sent_again_once(floor: Floor) -> None:
    lost = floor.submit()
    floor.lose_message()
    sweeper = floor.sweeper()
    assert floor.sweeps(sweeper, floor.settings.sweep_grace_s) == NOTHING  # it may be on its way
    assert floor.sweeps(sweeper, 60) == Swept(republished=1)
    assert floor.waiting() == 1
    assert floor.bench.claim(lost)


def test_a_job_is_recorded_and_sent_in_one_step(floor: Floor) -> None:
    floor.submit()
    assert floor.waiting() == 1
    assert floor.sweeps(floor.sweeper(), 60) == NOTHING


def test_a_message_that_is_lost_again_is_sent_again(floor: Floor) -> None:
    floor.submit()
    sweeper = floor.sweeper()
    for _ in range(3):
        floor.lose_message()
        assert floor.sweeps(sweeper, 5) == Swept(republished=1)


def test_what_only_looked_lost_is_not_sent_again(floor: Floor) -> None:
    slow = floor.submit()
    sweeper = floor.sweeper()
    floor.bench.clock.advance(60)
    floor.lose_message()  # a worker has it
    assert sweeper.sweep_once() == NOTHING
    assert floor.bench.claim(slow, lease_s=600)
    assert floor.sweeps(sweeper, 5) == NOTHING


def test_a_gap_between_sweeps_starts_suspicion_anew(floor: Floor) -> None:
    floor.submit()
    floor.lose_message()
    one, other = floor.sweeper(), floor.sweeper()
    floor.bench.clock.advance(60)
    assert one.sweep_once() == NOTHING
    floor.client.delete(f"{floor.settings.key_prefix}lock:sweeper")  # it ran out
    assert other.sweep_once() == NOTHING
    assert one.sweep_once() is None
    floor.client.delete(f"{floor.settings.key_prefix}lock:sweeper")
    assert one.sweep_once() == NOTHING  # what it saw a while ago proves nothing now
    assert one.sweep_once() == Swept(republished=1)


# ---- workers ----
def test_a_silent_workers_job_is_queued_again_and_sent(floor: Floor) -> None:
    message = floor.running(lease_s=6)
    sweeper = floor.sweeper()
    assert floor.sweeps(sweeper, 5.5) == NOTHING
    assert floor.sweeps(sweeper, 1) == Swept(recovered=1)
    assert floor.waiting() == 1
    assert floor.bench.ledger.claim(message.job_id, 2, worker="w", lease_s=6)


def test_a_job_that_kills_every_worker_is_given_up(floor: Floor) -> None:
    message = floor.bench.running(lease_s=1)
    sweeper = floor.sweeper()
    for attempt in (2, 3):
        assert floor.sweeps(sweeper, 4).recovered == 1
        assert floor.bench.ledger.claim(message.job_id, attempt, worker="w", lease_s=1)
    assert floor.sweeps(sweeper, 4).recovered == 1
    assert floor.bench.state(message.job_id) == "failed"
    assert floor.bench.ledger.dead_letters() == [message.job_id]


def test_after_an_outage_workers_get_a_moment_to_renew(floor: Floor) -> None:
    message = floor.bench.running(lease_s=6)
    sweeper = floor.sweeper()
    assert floor.sweeps(sweeper, 5) == NOTHING
    floor.bench.clock.advance(30)
    with pytest.MonkeyPatch.context() as patch:  # the outage, as the sweeper sees it
        patch.setattr(floor.bench.ledger, "expired_leases", unavailable)
        with pytest.raises(StoreUnavailable):
            sweeper.sweep_once()
    assert sweeper.sweep_once() == NOTHING
    assert floor.bench.ledger.renew(message.job_id, 1, lease_s=60)  # back as well
    assert floor.sweeps(sweeper, 10) == NOTHING
    assert floor.bench.succeed(message)


def unavailable(*, limit: int) -> None:
    raise StoreUnavailable


@pytest.mark.parametrize("step_s", [120.0, -120.0])
def test_a_clock_that_is_set_takes_no_job_from_a_worker_that_lives(floor: Floor, step_s: float) -> None:
    job_id = floor.running(lease_s=6).job_id
    assert floor.sweeps(sweeper := floor.sweeper(), 3) == NOTHING
    floor.stepped_s = step_s
    floor.bench.clock.advance(step_s)
    assert floor.sweeps(sweeper, floor.settings.sweep_s) == NOTHING  # before the worker's next heartbeat
    assert floor.bench.ledger.renew(job_id, 1, lease_s=6)
    assert floor.sweeps(sweeper, 5) == NOTHING


# ---- what is old ----
def test_old_records_and_matrices_go(floor: Floor) -> None:
    done = floor.bench.running()
    assert floor.bench.succeed(done)
    floor.matrices += [3, 100, 100, 7]
    sweeper = floor.sweeper()
    assert sweeper.sweep_once() == Swept(matrices=3)
    floor.bench.clock.advance(floor.settings.job_ttl_s)
    assert sweeper.sweep_once() == Swept(expired=1, matrices=100)
    assert sweeper.sweep_once() == Swept(matrices=100)  # at once: a full batch means that there is more
    assert sweeper.sweep_once() == Swept(matrices=7)
    assert sweeper.sweep_once() == NOTHING
    with pytest.raises(JobNotFound):
        floor.bench.ledger.get(done.job_id)


def test_a_full_redis_does_not_keep_the_sweeper_from_making_room(floor: Floor) -> None:
    silent, done = floor.running(lease_s=1), floor.bench.running()
    floor.lose_message()
    assert floor.bench.succeed(done)
    sweeper = floor.sweeper()
    assert sweeper.sweep_once() == NOTHING
    floor.bench.clock.advance(floor.settings.job_ttl_s)
    floor.client.config_set("maxmemory", "1mb")
    try:
        with pytest.raises(StoreFull):
            floor.submit()
        assert sweeper.sweep_once() == Swept(recovered=1, expired=1)
        assert floor.waiting() == 1  # sent too
    finally:
        floor.client.config_set("maxmemory", "0")
    assert floor.bench.ledger.claim(silent.job_id, 2, worker="w", lease_s=6)


# ---- the lock and the loop ----
def test_one_of_two_sweepers_works(floor: Floor) -> None:
    one, other = floor.sweeper(), floor.sweeper()
    assert one.sweep_once() == NOTHING
    assert other.sweep_once() is None
    assert one.sweep_once() == NOTHING
    assert 0 < floor.client.pttl(f"{floor.settings.key_prefix}lock:sweeper") <= LOCK_S * 1000
    stopped = Event()
    stopped.set()
    other.run_forever(stopped)  # lets go of what it holds, which is nothing
    assert other.sweep_once() is None
    one.run_forever(stopped)
    assert other.sweep_once() == NOTHING
