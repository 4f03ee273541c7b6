"""Ended jobs are bounded in number: the oldest go, with all that is kept of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from jobs.errors import JobNotFound, MatrixNotFound
from jobs.ledger.interface import IdempotencyKey
from jobs.ledger.limits import Limits
from jobs.ledger.redis import RedisLedger
from jobs.ledger.submission import key_digest
from jobs.matrices.index import Bounds, Claim, MatrixIndex
from jobs.models import ANONYMOUS, Progress, product_id
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.job_matrices import JobMatrices
from jobs.states import JobState
from tests.support.ledger.both_ways import submitted_together
from tests.support.ledger.ledgers import assert_books_agree, new_job, outcome, redis_ledger

OF_ALL, OF_OWNER, MORE = 40, 20, 8  # the bounds, and how many go at a time


@dataclass
class Ended:
    ledger: RedisLedger
    index: MatrixIndex
    client: redis.Redis
    prefix: str

    def submit(self, owner: str = ANONYMOUS, **options: Any) -> str:
        key = IdempotencyKey(options.pop("key"), "f") if "key" in options else None
        new = new_job(owner, **options)
        self.ledger.submit(new, max_queued=999, max_queued_per_owner=999, idempotency=key)
        return new.id

    def end(self, job_id: str, product: bytes | None = None) -> None:
        self.ledger.claim(job_id, 1, worker="w", lease_s=6)
        assert self.ledger.succeed(job_id, 1, outcome(), product)

    def ended(self, count: int, owner: str = ANONYMOUS, **options: Any) -> list[str]:
        jobs = []
        for _ in range(count):
            jobs.append(self.submit(owner, **options))
            self.end(jobs[-1])
        return jobs

    def kept(self, jobs: list[str]) -> list[str]:
        return [job_id for job_id in jobs if self._is_kept(job_id)]

    def _is_kept(self, job_id: str) -> bool:
        try:
            self.ledger.get(job_id)
        except JobNotFound:
            return False
        return True

    def keys(self, job_id: str = "") -> set[str]:
        found: Any = self.client.keys(f"{self.prefix}*{job_id}*")
        return {key.decode() for key in found}


@pytest.fixture
def records(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Ended]:
    with valkey.client() as client:
        ledger = redis_ledger(client, key_prefix, max_ended=Limits(OF_ALL, OF_OWNER))
        yield Ended(ledger, MatrixIndex(client, key_prefix, Bounds(1 << 20, 1 << 20)), client, key_prefix)


def test_of_each_owner_so_many_are_kept(records: Ended) -> None:
    """An open server has one owner, too. What an owner has is no one else's loss."""
    others = records.ended(3, "bob")
    jobs = records.ended(70)
    kept = records.kept(jobs)
    assert kept == jobs[-len(kept) :] and OF_OWNER <= len(kept) <= OF_OWNER + MORE
    assert records.kept(others) == others
    assert assert_books_agree(records.client, records.prefix) == len(kept) + 3


def test_of_all_owners_so_many_are_kept(records: Ended) -> None:
    owners = [f"owner{number}" for number in range(8)]
    jobs = [job_id for _ in range(10) for owner in owners for job_id in records.ended(1, owner)]
    kept = records.kept(jobs)
    assert kept == jobs[-len(kept) :] and OF_ALL <= len(kept) <= OF_ALL + MORE
    assert assert_books_agree(records.client, records.prefix) == len(kept)


def test_those_that_ended_first_go_first_and_those_that_did_not_end_stay(records: Ended) -> None:
    late, waits = records.submit(), records.submit()
    jobs = records.ended(OF_OWNER)
    records.end(late)
    records.ended(MORE)
    records.submit()
    assert records.kept([late, waits]) == [late, waits] and records.kept(jobs) == jobs[MORE:]


def test_all_of_a_job_goes(records: Ended) -> None:
    """Its matrices, findings, events and key, and the product that it stored, which the sweep then removes."""
    small = records.submit(matrices=JobMatrices(a=b"a" * 50, product_bytes=60, ttl_s=60), key="k")
    records.end(small, b"p" * 60)
    measured = records.submit()
    records.ledger.claim(measured, 1, worker="w", lease_s=6)
    records.ledger.keep_findings(measured, 1, {"record:1": b"{}"}, Progress(done=1, total=2), {})
    records.ledger.cancel(measured)
    large = records.submit()
    product = product_id(large, 1)
    records.index.claim(Claim(product, product, "float32", (8, 8), ANONYMOUS, 60.0))
    records.end(large)
    assert records.index.used_bytes(ANONYMOUS) > 0 and len(records.keys(measured)) == 3
    records.ended(OF_OWNER + MORE)
    records.submit()
    assert not records.kept([small, measured, large])
    for job_id in (small, measured, large):
        assert not records.keys(job_id)
    with pytest.raises(MatrixNotFound):
        records.index.find(product, ANONYMOUS)
    assert [elements.data for elements in records.index.expire(100)[1]] == [product]
    assert records.index.used_bytes(ANONYMOUS) == 0
    assert records.ledger.bound_job(ANONYMOUS, IdempotencyKey("k", "f")) is None
    assert records.ledger.counts()[JobState.CANCELLED] == 0
    assert_books_agree(records.client, records.prefix)


def test_a_product_that_a_job_needs_outlives_its_own_job(records: Ended) -> None:
    source = records.submit()
    product = product_id(source, 1)
    records.index.claim(Claim(product, product, "float32", (8, 8), ANONYMOUS, 60.0))
    records.end(source)
    needs = records.submit(a=source)
    records.ended(OF_OWNER + MORE)
    records.submit()
    assert not records.kept([source])
    assert records.index.expire(100)[1] == []
    records.end(needs)
    assert [elements.data for elements in records.index.expire(100)[1]] == [product]


def test_a_product_that_goes_in_the_same_step_is_no_operand(records: Ended) -> None:
    """The step records a job of another owner before, so the oldest jobs go in the middle of it."""
    source = records.submit("bob", matrices=JobMatrices(a=b"a", b=b"b", product_bytes=9, ttl_s=60))
    records.end(source, b"product")
    for owner, count in {"alice": 16, "carol": 16, "dave": 15}.items():
        records.ended(count, owner)
    assert records.kept([source])
    needs = new_job("bob", a=source, matrices=JobMatrices(b=b"b", product_bytes=9, ttl_s=60))
    first, second = submitted_together([new_job("alice"), needs], records.ledger)
    assert first[0] == b"recorded" and not records.kept([source])
    assert second == [b"operand_missing", b"a"]
    assert_books_agree(records.client, records.prefix)


def test_the_memory_of_redis_is_bounded(records: Ended) -> None:
    """Of keys, there are no more after many jobs than after some."""

    def left() -> int:
        records.ended(80, matrices=JobMatrices(a=b"a" * 50, product_bytes=60, ttl_s=60))
        records.client.delete(f"{records.prefix}broker:cpu")  # as the workers would have fetched them
        return len(records.keys())

    assert abs(left() - left()) <= 2 * MORE


def test_keys_that_stand_for_no_new_job_are_bounded_too(records: Ended) -> None:
    """Of each owner, retries among them: a caller who sends them without end fills nothing. One that expired and then
    stands for a job is that job's."""
    ledger = records.ledger

    def bound(owner: str = "alice") -> list[str]:
        names = (f"key {number}" for number in range(-1, OF_OWNER + 5))
        return [name for name in names if ledger.bound_job(owner, IdempotencyKey(name, "f"))]

    ledger.bind_key("bob", IdempotencyKey("key 0", "f"), "his matrix")
    for number in range(OF_OWNER + 3):
        ledger.bind_key("alice", IdempotencyKey(f"key {number}", "f"), "a matrix")
    assert bound() == [f"key {number}" for number in range(3, OF_OWNER + 3)] and bound("bob") == ["key 0"]
    job = records.submit("alice", key="key -1")
    ledger.cancel(job)
    ledger.redrive(job, owner="alice", key=IdempotencyKey(f"key {OF_OWNER + 3}", "f"))
    assert bound() == ["key -1", *(f"key {number}" for number in range(4, OF_OWNER + 4))]
    records.client.zadd(f"{records.prefix}bound:bob", {key_digest("bob", "key 0"): 1})  # long ago
    ledger.bind_key("bob", IdempotencyKey("another", "f"), "a matrix")
    assert bound("bob") == ["key 0"]
