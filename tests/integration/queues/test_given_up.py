"""A job that no live worker understands is given up. That frees its place for its key's next job in the same step: no
sweep has to find out."""

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
    """Jobs of a key, the first of which the worker refuses. It gets the second one; the others have no message."""
    jobs = floor.submit("alice", count)
    Rows(floor.client, floor.bench.clock.prefix).change(jobs[0], "request", unknown_kernel)
    assert floor.claim(worker="one") == []
    claimed = floor.claim(worker="one")
    assert claimed and claimed[0].job.id == jobs[1] and floor.messages() == []
    floor.bench.clock.advance(LONG_S + 1)
    return jobs


def give_up(floor: Floor) -> int:
    assert isinstance(floor.bench.ledger, RedisLedger)
    return floor.bench.ledger.refusals.give_up([worker("one")], older_than_s=LONG_S)


def test_the_next_job_of_its_key_is_sent_at_once(floor: Floor) -> None:
    jobs = refused(floor, 4)
    assert give_up(floor) == 1
    assert floor.bench.state(jobs[0]) == "failed" and floor.messages() == [jobs[2]]
    assert floor.claimed_owners() == ["alice", "alice"]
    assert not floor.client.exists(f"{floor.bench.clock.prefix}window:cpu")


def test_its_message_holds_nobody_up(floor: Floor) -> None:
    jobs = refused(floor, 3)
    (lost,) = floor.bench.ledger.lost_messages("cpu", broker_is_empty=True, grace_s=2)
    assert floor.bench.ledger.republish(lost) and floor.messages() == [jobs[0]]
    (other,) = floor.submit("bob")
    assert give_up(floor) == 1
    assert floor.messages() == [other, jobs[2]]
