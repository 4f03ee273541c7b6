"""Fairness between owners in a queue: each owner's jobs in order, owners round robin, however many jobs wait."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.errors import DeviceFault
from jobs.ledger.codec import job_error
from jobs.ledger.interface import Claimed, JobFilter
from jobs.ledger.redis import RedisLedger
from jobs.models import ANONYMOUS, new_id
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.job_matrices import JobMatrices
from jobs.states import JobState
from tests.support.ledger.ledgers import Bench, assert_books_agree, new_job, redis_bench

OWNERS = ("alice", "bob", "carol")
SMALL = JobMatrices(a=b"a", b=b"b", product_bytes=1, ttl_s=1)


@dataclass
class Floor:
    """A ledger, and its broker's list as a worker reads it."""

    bench: Bench

    @property
    def client(self) -> Any:
        return self.bench.clock.client

    def submit(self, owner: str, count: int = 1, *, queue: str = "cpu", **options: Any) -> list[str]:
        jobs = [new_job(owner, queue=queue, **options) for _ in range(count)]
        for job in jobs:
            self.bench.ledger.submit(job, max_queued=10**6, max_queued_per_owner=10**6)
        return [job.id for job in jobs]

    def messages(self, queue: str = "cpu") -> list[str]:
        """Ids of the jobs in the list, the next first."""
        found = self.client.lrange(f"{self.bench.clock.prefix}broker:{queue}", 0, -1)
        return [json.loads(json.loads(text)["body"])[0][0] for text in reversed(found)]

    def claim(self, queue: str = "cpu", **options: Any) -> list[Claimed] | None:
        """What a worker gets for the next message; None where there is no message."""
        text = self.client.rpop(f"{self.bench.clock.prefix}broker:{queue}")
        if text is None:
            return None
        job_id, attempt = json.loads(json.loads(text)["body"])[0]
        about: dict[str, Any] = {"worker": new_id("w"), "lease_s": 60, "max_jobs": 1} | options
        return list(self.bench.ledger.claim_batch(job_id, attempt, **about))

    def claimed_owners(self, **options: Any) -> list[str]:
        """Whose jobs run, one after the other, until none waits."""
        owners = []
        while (claimed := self.claim(**options)) is not None:
            owners += [each.job.owner for each in claimed]
        return owners

    def place(self, job_id: str) -> int | None:
        return self.bench.ledger.get(job_id).record.queue_position


@pytest.fixture
def floor(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Floor]:
    with redis_bench(valkey, key_prefix) as bench:
        yield Floor(bench)


def test_a_key_that_comes_later_does_not_wait_for_all_of_another(floor: Floor) -> None:
    floor.submit("alice", 300)
    floor.submit("bob", 3)
    floor.submit("carol", 1)
    owners = floor.claimed_owners()
    assert owners[:8] == ["alice", "bob", "carol", "alice", "bob", "alice", "bob", "alice"]
    assert Counter(owners) == {"alice": 300, "bob": 3, "carol": 1}


def test_the_broker_holds_a_message_of_each_key_for_each_worker(floor: Floor) -> None:
    first = floor.submit("alice", 9)
    second = floor.submit("bob", 2)
    assert floor.messages() == [first[0], second[0]]
    assert floor.bench.ledger.refill({"cpu": 3}) == 3
    assert floor.messages() == [first[0], second[0], *first[1:3], second[1]]
    assert floor.bench.ledger.refill({"cpu": 3}) == 0
    assert floor.submit("carol", 4)[:3] == floor.messages()[-3:]


def test_more_messages_are_sent_in_the_order_of_the_first_ones(floor: Floor) -> None:
    alice, bob = floor.submit("alice", 3), floor.submit("bob", 3)
    floor.claim()
    assert floor.messages() == [bob[0], alice[1]]
    assert floor.bench.ledger.refill({"cpu": 2}) == 2
    assert floor.messages() == [bob[0], alice[1], bob[1], alice[2]]


def test_jobs_of_an_open_server_are_all_sent(floor: Floor) -> None:
    jobs = floor.submit(ANONYMOUS, 20)
    assert floor.messages() == jobs
    assert [floor.place(job) for job in jobs] == list(range(1, 21))


def test_places_in_the_queue(floor: Floor) -> None:
    first, second = floor.submit("alice", 100), floor.submit("bob", 2)
    assert [floor.place(job) for job in (first[0], *second)] == [1, 2, 4]
    assert [floor.place(job) for job in (first[1], first[2], first[99])] == [4, 6, 102]
    depth = floor.bench.ledger.depths(["cpu"])["cpu"]
    assert depth.waiting == 102


def test_each_queue_has_its_own_round(floor: Floor) -> None:
    floor.submit("alice", 5)
    elsewhere = floor.submit("alice", 5, queue="gpu")
    assert floor.messages("gpu") == elsewhere[:1]
    assert floor.claimed_owners() == ["alice"] * 5
    assert floor.messages("gpu") == elsewhere[:1]


def test_a_launch_takes_jobs_of_its_own_key_first_and_then_of_others(floor: Floor) -> None:
    floor.submit("alice", 100, matrices=SMALL, batch="one")
    floor.submit("bob", 5, matrices=SMALL, batch="one")
    launches = []
    while (claimed := floor.claim(max_jobs=8)) is not None:
        launches.append(Counter(each.job.owner for each in claimed))
    assert launches[:2] == [{"alice": 8}, {"bob": 5, "alice": 3}]
    assert sum(launches, Counter()) == {"alice": 100, "bob": 5}
    assert len(launches) == 14 and floor.messages() == []


def test_what_is_called_off_holds_nobody_up(floor: Floor) -> None:
    """Neither its message nor the place of those behind it."""
    jobs = floor.submit("alice", 50)
    (other,) = floor.submit("bob")
    for job in jobs[:49]:
        floor.bench.ledger.cancel(job)
    assert floor.messages() == [other, jobs[49]]


def test_a_retried_job_waits_behind_those_of_its_key(floor: Floor) -> None:
    jobs = floor.submit("alice", 3)
    floor.submit("bob")
    claimed = floor.claim()
    assert claimed and claimed[0].job.id == jobs[0]
    assert floor.bench.ledger.fail(jobs[0], 1, job_error(DeviceFault), max_attempts=2)
    assert floor.claimed_owners() == ["bob", "alice", "alice", "alice"]
    assert floor.bench.ledger.get(jobs[0]).record.attempt == 2


def test_a_dependent_takes_its_place_when_its_operand_is_there(floor: Floor) -> None:
    (source,) = floor.submit("alice")
    (waits,) = floor.submit("alice", a=source)
    floor.submit("bob", 2)
    later = floor.submit("alice", 2)
    claimed = floor.claim()
    assert claimed and claimed[0].job.id == source
    floor.bench.ledger.cancel(source)
    assert floor.bench.state(waits) == "failed"
    assert floor.claimed_owners() == ["bob", "alice", "bob", "alice"]
    assert [floor.bench.state(job) for job in later] == ["running"] * 2


def test_only_messages_that_were_sent_can_be_lost(floor: Floor) -> None:
    jobs, others = floor.submit("alice", 3), floor.submit("bob", 3)
    floor.bench.clock.advance(9)
    ledger = floor.bench.ledger
    lost = ledger.lost_messages("cpu", broker_is_empty=True, grace_s=2)
    assert [message.job_id for message in lost] == [jobs[0], others[0]]
    floor.client.rpop(f"{floor.bench.clock.prefix}broker:cpu")  # with the worker that fetched it
    for _ in range(2):
        assert floor.claim()
        floor.bench.clock.advance(9)
    lost = ledger.lost_messages("cpu", broker_is_empty=False, grace_s=2)
    assert [message.job_id for message in lost] == [jobs[0]]
    assert ledger.republish(lost[0])
    assert floor.claimed_owners() == ["bob", "alice", "alice", "alice"]


def test_a_job_that_its_worker_did_not_understand_counts_as_sent_again(floor: Floor) -> None:
    floor.submit("alice", 3)
    (claimed,) = floor.claim(worker="old") or []
    ledger = floor.bench.ledger
    assert isinstance(ledger, RedisLedger)
    ledger.refusals._refuse("old", [(claimed.job.id, "1")])
    assert floor.client.hgetall(f"{floor.bench.clock.prefix}window:cpu") == {b"alice": b"2"}
    floor.claimed_owners()  # of those whose messages are there
    assert ledger.others_wait("cpu", {"bob"})


def test_jobs_that_other_scripts_took_do_not_stop_a_keys_line(floor: Floor) -> None:
    """A worker of another version claims a job and sends none after it."""
    jobs = floor.submit("alice", 3)
    prefix = floor.bench.clock.prefix
    floor.client.rpop(f"{prefix}broker:cpu")
    floor.client.zrem(f"{prefix}queued:cpu", jobs[0])
    floor.client.hset(f"{prefix}job:{jobs[0]}", "state", "running")
    assert floor.messages() == []
    assert floor.bench.ledger.refill({"cpu": 1}) == 2
    assert floor.messages() == jobs[1:]


@dataclass
class Model:
    """Which jobs wait, and who is owed a claim: by owner, those that had one since it began to wait or had one."""

    lines: dict[str, deque[str]] = field(default_factory=lambda: {owner: deque() for owner in OWNERS})
    since: dict[str, set[str]] = field(default_factory=lambda: {owner: set() for owner in OWNERS})

    def enters(self, owner: str, job_id: str) -> None:
        if not self.lines[owner]:
            self.since[owner] = set()
        self.lines[owner].append(job_id)

    def leaves(self, owner: str, job_id: str) -> None:
        self.lines[owner].remove(job_id)
        self.since[owner] = set()

    def claims(self, owner: str, job_id: str) -> None:
        assert self.lines[owner][0] == job_id, "first in, first out"
        self.leaves(owner, job_id)
        for other in OWNERS:
            if other != owner and self.lines[other]:
                assert owner not in self.since[other], f"{owner} had two jobs begun while {other} waited"
                self.since[other].add(owner)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "flood", "claim", "claim", "cancel", "redrive"]), st.integers(0, 99)
    ),
    max_size=60,
)


def play(floor: Floor, model: Model, steps: list[tuple[str, int]]) -> Counter[tuple[str, int]]:
    """Every attempt that was claimed."""
    claims: Counter[tuple[str, int]] = Counter()
    cancelled: list[tuple[str, str]] = []

    def claim() -> bool:
        claimed = floor.claim()
        if claimed is None:
            assert not any(model.lines.values())
            return False
        ((job, attempt),) = [(each.job, each.attempt) for each in claimed]
        claims[job.id, attempt] += 1
        model.claims(job.owner, job.id)
        return True

    for step, pick in steps:
        owner = OWNERS[pick % len(OWNERS)]
        if step in ("submit", "flood"):
            for job_id in floor.submit(owner, 1 if step == "submit" else 7):
                model.enters(owner, job_id)
        elif step == "claim":
            claim()
        elif step == "cancel" and model.lines[owner]:
            job_id = model.lines[owner][pick % len(model.lines[owner])]
            floor.bench.ledger.cancel(job_id)
            model.leaves(owner, job_id)
            cancelled.append((owner, job_id))
        elif step == "redrive" and cancelled:
            its_owner, job_id = cancelled.pop(pick % len(cancelled))
            floor.bench.ledger.redrive(job_id)
            model.enters(its_owner, job_id)
    while claim():
        pass
    return claims


def test_any_history_is_fair_and_claims_every_job_once(valkey: EmbeddedServer) -> None:
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(STEPS)
    def check(steps: list[tuple[str, int]]) -> None:
        prefix = f"{new_id('fair')}:"
        with redis_bench(valkey, prefix) as bench:
            claims = play(Floor(bench), Model(), steps)
            assert max(claims.values(), default=1) == 1
            running = [
                job
                for owner in OWNERS
                for job in bench.all_jobs(JobFilter(owner=owner, state=JobState.RUNNING), limit=100)
            ]
            assert {(job.id, job.record.attempt) for job in running} <= claims.keys()
            assert bench.clock.client is not None
            assert_books_agree(bench.clock.client, prefix)
            assert not list(bench.clock.client.scan_iter(f"{prefix}backlog:*"))
            assert not bench.clock.client.exists(f"{prefix}window:cpu")

    check()
