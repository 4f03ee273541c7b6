"""A job that no live worker understands waits in nobody's way, and is given up. No sweep has to find out that its place
is free."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.ledger.redis import RedisLedger
from jobs.redis.embedded import EmbeddedServer
from tests.integration.queues.test_fairness import Floor
from tests.integration.versions.test_records import LONG_S, worker
from tests.support.ledger.ledgers import assert_books_agree, redis_bench
from tests.support.ledger.other_versions import Rows, unknown_kernel


@pytest.fixture
def floor(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Floor]:
    with redis_bench(valkey, key_prefix) as bench:
        yield Floor(bench)
        assert bench.clock.client is not None
        assert_books_agree(bench.clock.client, key_prefix)


def refused(floor: Floor, count: int) -> list[str]:
    """Jobs of a key, the first of which the worker refuses."""
    jobs = floor.submit("alice", count)
    Rows(floor.client, floor.bench.clock.prefix).change(jobs[0], "request", unknown_kernel)
    assert floor.claim(worker="one") == []
    assert floor.messages() == jobs[1:2]
    floor.bench.clock.advance(LONG_S + 1)
    return jobs


def give_up(floor: Floor) -> int:
    assert isinstance(floor.bench.ledger, RedisLedger)
    return floor.bench.ledger.refusals.give_up([worker("one")], older_than_s=LONG_S)


def test_its_place_is_free_at_once(floor: Floor) -> None:
    jobs = refused(floor, 2)
    assert floor.claimed_owners() == ["alice"]
    assert give_up(floor) == 1
    assert floor.bench.state(jobs[0]) == "failed"
    assert not floor.client.exists(f"{floor.bench.clock.prefix}window:cpu")
    assert floor.submit("alice") == floor.messages()


def test_its_message_holds_nobody_up(floor: Floor) -> None:
    jobs = refused(floor, 3)
    lost = floor.bench.ledger.lost_messages("cpu", broker_is_empty=True, grace_s=2)
    assert [floor.bench.ledger.republish(each) is not None for each in lost if each.job_id == jobs[0]] == [True]
    assert floor.messages() == [jobs[1], jobs[0]]
    assert give_up(floor) == 1
    assert floor.messages() == jobs[1:2]
    assert floor.claimed_owners() == ["alice", "alice"]


def test_jobs_that_wait_to_be_given_up_hold_up_no_other(floor: Floor) -> None:
    """However many there are: each waits for a worker of another version, and takes nobody's turn meanwhile."""
    jobs, rows = floor.submit("alice", 7), Rows(floor.client, floor.bench.clock.prefix)
    for job in jobs[:3]:
        rows.change(job, "request", unknown_kernel)
        assert floor.claim(worker="one") == []
    floor.submit("bob", 2)
    assert floor.claimed_owners(worker="one") == ["alice", "bob", "alice", "bob", "alice", "alice"]
    assert floor.bench.ledger.refill({"cpu": 1}) == 0
    assert [floor.bench.state(job) for job in jobs] == ["queued"] * 3 + ["running"] * 4
    floor.bench.clock.advance(LONG_S + 1)
    assert give_up(floor) == 3 and not floor.client.exists(f"{floor.bench.clock.prefix}window:cpu")
