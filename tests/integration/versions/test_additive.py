"""The keys of layout 1, as the first version with that number wrote them. Scripts of two versions work on the same keys
during a rolling restart, so what is here stays: a version may add to it, and not remove, rename or change it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from jobs.errors import WorkerLost
from jobs.fleet.registry import WorkerRegistry
from jobs.ledger.codec import job_error
from jobs.ledger.interface import IdempotencyKey
from jobs.models import Progress
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.redis.layout import LAYOUT
from jobs.requests.job_matrices import JobMatrices
from tests.support.ledger.ledgers import Bench, new_job, outcome, redis_bench, settings_for
from tools.harness.api import worker_info

ID = re.compile(r"[0-9a-f]{32,64}(_\d+)?")

LAYOUT_1 = {
    "batch:cpu:b": ("zset", ""),
    "broker:cpu": ("list", ""),
    "counts": ("hash", "cancelled failed number:cpu sent:cpu seq started:cpu waiting"),
    "dead": ("zset", ""),
    "dead:anonymous": ("zset", ""),
    "finished": ("zset", ""),
    "hold:*": ("string", ""),
    "idem:*": ("hash", "fingerprint job"),
    "job:job_*": (
        "hash",
        "a_attempt a_job asked attempt batch created dependents device error error_type finished first held id idem "
        "in_record kernel kind lists message number others outcome owner product_bytes progress published queue queued "
        "request runs seen seq started state timeout ttl unmet version waits worker",
    ),
    "job:job_*:dependents": ("zset", ""),
    "job:job_*:events": ("stream", ""),
    "job:job_*:findings": ("hash", "record:0:x"),
    "job:job_*:matrices": ("hash", "a b c"),
    "jobs:all:anonymous": ("zset", ""),
    "jobs:cancelled:anonymous": ("zset", ""),
    "jobs:failed:anonymous": ("zset", ""),
    "jobs:queued:anonymous": ("zset", ""),
    "jobs:succeeded:anonymous": ("zset", ""),
    "leases": ("zset", ""),
    "matrices:bytes": ("hash", "all of:anonymous"),
    "packed": ("zset", ""),
    "queued:cpu": ("zset", ""),
    "workers": ("zset", ""),
    "workers:info": ("hash", "played"),
}


def keys_of(client: redis.Redis, prefix: str) -> dict[str, tuple[str, set[str]]]:
    """By name, with ids left out: what kind of key it is, and the fields where it is a hash."""
    keys: dict[str, tuple[str, set[str]]] = {}
    for key in client.scan_iter(f"{prefix}*"):
        name = ID.sub("*", key.decode().removeprefix(prefix))
        kind: Any = client.type(key)
        found: Any = client.hkeys(key) if kind == b"hash" else []
        _, fields = keys.setdefault(name, (kind.decode(), set()))
        fields |= {ID.sub("*", field.decode()) for field in found}
    return keys


def live(bench: Bench) -> None:
    """Jobs of all sorts, in all states."""
    ledger, matrices = bench.ledger, JobMatrices(a=b"a" * 8, b=b"b" * 8, product_bytes=8, ttl_s=60)
    key = IdempotencyKey("key", "fingerprint")
    together = [new_job(matrices=matrices, batch="b") for _ in range(3)]
    for job in together:
        ledger.submit(job, max_queued=99, max_queued_per_owner=99, idempotency=key if job is together[0] else None)
    ledger.claim_batch(together[0].id, 1, worker="w", lease_s=1, max_jobs=2)
    for operand in (together[0].id, together[2].id):
        ledger.submit(new_job(a=operand), max_queued=99, max_queued_per_owner=99)
    ledger.succeed(together[0].id, 1, outcome(), b"c" * 8)
    ledger.hold_key("anonymous", "other", holder="h", hold_s=60)
    lost = bench.running(lease_s=1)
    ledger.fail(lost.job_id, 1, job_error(WorkerLost), max_attempts=2)
    ledger.claim(lost.job_id, 2, worker="w", lease_s=1)
    ledger.fail(lost.job_id, 2, job_error(WorkerLost), max_attempts=2)
    measured = bench.submit_benchmark()
    ledger.claim(measured.job_id, 1, worker="w", lease_s=60)
    ledger.keep_findings(measured.job_id, 1, {"record:0:x": b"{}"}, Progress(done=1, total=2), {})
    called_off = bench.submit()
    ledger.cancel(called_off.job_id)


@pytest.fixture
def bench(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Bench]:
    with redis_bench(valkey, key_prefix) as bench:
        yield bench


def test_what_this_layout_began_with_is_all_there(bench: Bench, valkey: EmbeddedServer, key_prefix: str) -> None:
    assert LAYOUT == 1, "write down what the new layout begins with"
    live(bench)
    with connect(settings_for(valkey, key_prefix)) as client:
        WorkerRegistry(client, prefix=key_prefix).beat(worker_info(), 60)
        keys = keys_of(client, key_prefix)
    for name, (kind, fields) in LAYOUT_1.items():
        found, there = keys[name]
        assert found == kind and there >= {*fields.split()}, name
