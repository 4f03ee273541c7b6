"""Many keys with many jobs each, and many workers that come at the same moment."""

from __future__ import annotations

from typing import Any

from jobs.ledger.limits import Limits
from jobs.redis.embedded import EmbeddedServer
from tests.support.ledger.ledgers import new_job, redis_ledger

KEYS, WORKERS = 64, 64  # more messages than one command of a script takes
MANY = Limits(10**6, 10**6)


def test_all_get_their_messages_in_one_sweep(valkey: EmbeddedServer, key_prefix: str) -> None:
    with valkey.client() as client:
        ledger = redis_ledger(client, key_prefix)
        for key in range(KEYS):
            jobs = [ledger._submission(new_job(f"key{key}"), MANY, None) for _ in range(WORKERS)]
            ledger._run("submit", *(part for job in jobs for part in job[:-2]), *jobs[0][-2:])
        assert ledger.refill({"cpu": WORKERS}) == KEYS * (WORKERS - 1)
        sent: Any = client.llen(f"{key_prefix}broker:cpu")
        assert sent == KEYS * WORKERS
        assert not client.keys(f"{key_prefix}backlog:*")
        window: Any = client.hvals(f"{key_prefix}window:cpu")
        assert window == [b"64"] * KEYS
        queued: Any = client.zrange(f"{key_prefix}queued:cpu", -1, -1, withscores=True)
        assert queued[0][1] == 2 * KEYS * WORKERS - KEYS  # each got a number in the backlog, and one when it was sent
