"""Many keys with many jobs each, and many workers that come at the same moment; and very many messages in a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobs.ledger.limits import Limits
from jobs.ledger.redis import RedisLedger
from jobs.models import ANONYMOUS
from jobs.redis.embedded import EmbeddedServer
from tests.support.ledger.ledgers import new_job, redis_ledger

KEYS, WORKERS = 64, 64  # more messages than one command of a script takes
MANY = Limits(10**6, 10**6)


def submit(ledger: RedisLedger, owner: str, count: int) -> Sequence[str]:
    """Many jobs in one step; their ids."""
    new = [new_job(owner) for _ in range(count)]
    jobs = [ledger._submission(job, MANY, None) for job in new]
    ledger._run("submit", *(part for job in jobs for part in job[:-2]), *jobs[0][-2:])
    return [job.id for job in new]


def test_all_get_their_messages_in_one_sweep(valkey: EmbeddedServer, key_prefix: str) -> None:
    with valkey.client() as client:
        ledger = redis_ledger(client, key_prefix)
        for key in range(KEYS):
            submit(ledger, f"key{key}", WORKERS)
        assert ledger.refill({"cpu": WORKERS}) == KEYS * (WORKERS - 1)
        sent: Any = client.llen(f"{key_prefix}broker:cpu")
        assert sent == KEYS * WORKERS
        assert not client.keys(f"{key_prefix}backlog:*")
        window: Any = client.hvals(f"{key_prefix}window:cpu")
        assert window == [b"64"] * KEYS
        queued: Any = client.zrange(f"{key_prefix}queued:cpu", -1, -1, withscores=True)
        assert queued[0][1] == 2 * KEYS * WORKERS - KEYS  # each got a number in the backlog, and one when it was sent


def test_a_key_is_helped_on_however_many_messages_wait(valkey: EmbeddedServer, key_prefix: str) -> None:
    """A worker of another version took its job, and sent none after it. Several sweeps look through a long list."""
    with valkey.client() as client:
        ledger = redis_ledger(client, key_prefix)
        taken, *others = submit(ledger, "alice", 3)
        client.rpop(f"{key_prefix}broker:cpu")
        client.zrem(f"{key_prefix}queued:cpu", taken)
        client.hset(f"{key_prefix}job:{taken}", "state", "running")
        for _ in range(5):
            submit(ledger, ANONYMOUS, 500)
        assert [ledger.refill({"cpu": 1}) for _ in range(4)] == [0, 0, len(others), 0]
        numbers = [client.hget(f"{key_prefix}job:{job}", "number") for job in others]
        assert numbers == [b"2504", b"2505"], "behind all that waited"
