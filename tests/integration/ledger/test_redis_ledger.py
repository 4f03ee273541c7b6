"""What only the Redis ledger goes through: a Redis that stops, dies, forgets or is full, and who hears of changes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import IdempotencyKeyInUse, StoreFull, StoreUnavailable, WorkerLost
from jobs.ledger.codec import job_error
from jobs.ledger.interface import IdempotencyKey, JobFilter, Ledger
from jobs.models import Progress
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from tests.support.ledger.ledgers import (
    Bench,
    assert_books_agree,
    new_job,
    outcome,
    redis_bench,
    redis_ledger,
    settings_for,
)
from tests.support.prompt import within

KEY = IdempotencyKey("key", "fingerprint")


def submit(ledger: Ledger, idempotency: IdempotencyKey | None = None) -> str:
    job, _ = ledger.submit(new_job(), max_queued=9999, max_queued_per_owner=9999, idempotency=idempotency)
    return job.id


def test_the_servers_clock_times_a_job(valkey: EmbeddedServer, key_prefix: str) -> None:
    with connect(settings_for(valkey, key_prefix)) as client:
        ledger = redis_ledger(client, key_prefix)
        before = time.time()
        job_id = submit(ledger)
        claimed = ledger.claim(job_id, 1, worker="w", lease_s=6)
        assert claimed is not None
        assert ledger.expired_leases() == []
        assert ledger.succeed(job_id, 1, outcome())
        record = ledger.get(job_id).record
        assert before - 0.001 <= record.created_at.timestamp() <= time.time() + 0.001
        assert record.timing is not None and record.started_at is not None and record.finished_at is not None
        assert record.timing.queue_ms == (record.started_at - record.created_at) / timedelta(milliseconds=1)
        assert record.timing.total_ms == (record.finished_at - record.created_at) / timedelta(milliseconds=1)
        assert 0 < record.timing.queue_ms < record.timing.total_ms


def test_every_change_of_a_job_is_announced(valkey: EmbeddedServer, key_prefix: str) -> None:
    with redis_bench(valkey, key_prefix) as bench, valkey.client() as client, client.pubsub() as listener:
        listener.subscribe(f"{key_prefix}changes")
        assert listener.get_message(timeout=60)
        message = bench.running()
        job_id = message.job_id
        bench.ledger.progress(job_id, 1, Progress(done=0, total=2))
        bench.ledger.fail(job_id, 1, job_error(WorkerLost), max_attempts=2)
        bench.ledger.cancel(job_id)
        heard = [message["data"].decode() for _ in range(4) if (message := listener.get_message(timeout=60))]
        assert heard == [
            f"{job_id} {version} {state}"
            for version, state in enumerate(["running", "running", "queued", "cancelled"], 2)
        ]


def test_events_and_keys_do_not_stay_for_ever(valkey: EmbeddedServer, key_prefix: str) -> None:
    with redis_bench(valkey, key_prefix) as bench, valkey.client() as client:
        job_id = submit(bench.ledger, KEY)
        events = f"{key_prefix}job:{job_id}:events"
        bench.ledger.cancel(job_id)
        assert not client.exists(events)  # the record tells them
        bench.ledger.redrive(job_id)
        assert client.ttl(events) == -1
        bench.ledger.cancel(job_id)
        assert 3000 < int(client.ttl(events)) <= 3600
        assert int(client.memory_usage(events) or 0) < 1000  # and they do not take a page each
        bench.ledger.redrive(job_id)
        assert client.ttl(events) == -1
        bench.ledger.cancel(job_id)
        bench.ledger.delete(job_id)
        bench.ledger.hold_key("alice", "key", holder="one", hold_s=5)
        [hold] = client.scan_iter(f"{key_prefix}hold:*")
        assert 0 < int(client.ttl(hold)) <= 5
        bench.ledger.release_key("alice", "key", holder="one")
        left = {key.decode().removeprefix(key_prefix) for key in client.scan_iter(f"{key_prefix}*")}
        assert left == {"counts", "broker:cpu", "test-clock", "libraries"}


def test_a_holder_that_falls_silent_loses_its_key(valkey: EmbeddedServer, key_prefix: str) -> None:
    with redis_bench(valkey, key_prefix) as bench:
        bench.ledger.hold_key("alice", "key", holder="one", hold_s=0.01)
        deadline = time.monotonic() + 60
        while True:
            try:
                bench.ledger.hold_key("alice", "key", holder="two", hold_s=60)
                return
            except IdempotencyKeyInUse:
                assert time.monotonic() < deadline


def test_scripts_that_redis_forgot_are_sent_again(valkey: EmbeddedServer, key_prefix: str) -> None:
    with redis_bench(valkey, key_prefix) as bench, valkey.client() as client:
        message = bench.submit()
        client.script_flush()
        assert bench.claim(message)
        assert bench.succeed(message)


# ---- a Redis that is not there ----
def all_calls(ledger: Ledger) -> dict[str, Callable[[], Any]]:
    return {
        "submit": lambda: submit(ledger),
        "hold_key": lambda: ledger.hold_key("a", "k", holder="h", hold_s=1),
        "bound_job": lambda: ledger.bound_job("a", KEY),
        "get": lambda: ledger.get("job_1"),
        "list": lambda: ledger.list(JobFilter(), limit=1),
        "cancel": lambda: ledger.cancel("job_1"),
        "events": lambda: ledger.events("job_1"),
        "dead_letters": lambda: ledger.dead_letters(),
        "depths": lambda: ledger.depths(["cpu"]),
        "counts": lambda: ledger.counts(),
        "claim": lambda: ledger.claim("job_1", 1, worker="w", lease_s=1),
        "renew": lambda: ledger.renew("job_1", 1, lease_s=1),
        "expired_leases": lambda: ledger.expired_leases(),
    }


def refused(call: Callable[[], Any]) -> None:
    with pytest.raises(StoreUnavailable):
        call()


def test_a_stopped_redis_is_noticed_within_a_second(own_server: EmbeddedServer) -> None:
    with connect(settings_for(own_server, "t:"), timeout_s=Settings().redis_timeout_s) as client:
        ledger = redis_ledger(client, "t:")
        kept = submit(ledger)
        os.kill(own_server.pid, signal.SIGSTOP)
        for name in ("submit", "get", "counts"):
            within(1.0, lambda name=name: refused(all_calls(ledger)[name]))  # type: ignore[misc]
        os.kill(own_server.pid, signal.SIGCONT)
        assert ledger.get(kept).id == kept


def test_a_killed_redis_comes_back_with_every_job(own_server: EmbeddedServer) -> None:
    with connect(settings_for(own_server, "t:"), timeout_s=Settings().redis_timeout_s) as client:
        ledger = redis_ledger(client, "t:")
        jobs = [submit(ledger) for _ in range(50)]
        claimed = ledger.claim(jobs[0], 1, worker="w", lease_s=60)
        own_server.kill()
        for call in all_calls(ledger).values():
            within(1.0, lambda call=call: refused(call))  # type: ignore[misc]
        own_server.start()
        assert [job.id for job in ledger.list(JobFilter(), limit=99).jobs] == jobs[::-1]
        assert claimed is not None and ledger.get(jobs[0]) == claimed.job
        assert ledger.succeed(jobs[0], 1, outcome())
        assert assert_books_agree(client, "t:") == 50


def test_whatever_writes_a_crash_takes_the_books_agree(own_server: EmbeddedServer, tmp_path: Path) -> None:
    """The append-only file is cut at random places, as a power cut would: no change may be there by half."""
    rng = random.Random(7)
    with redis_bench(own_server, "t:") as bench:
        busy_life(bench, rng)
        in_all = assert_books_agree(bench.clock.client, "t:") if bench.clock.client else 0
    own_server.kill()
    [log] = (own_server.directory / "appendonlydir").glob("*.incr.aof")
    for number in range(4):
        copy = EmbeddedServer(tmp_path / f"copy-{number}")
        shutil.copytree(own_server.directory / "appendonlydir", copy.directory / "appendonlydir")
        cut = rng.randrange(log.stat().st_size // 4, log.stat().st_size)
        os.truncate(copy.directory / "appendonlydir" / log.name, cut)
        copy.start()
        with copy.client() as client:
            assert 0 < assert_books_agree(client, "t:") <= in_all
        copy.stop()


def busy_life(bench: Bench, rng: random.Random) -> None:
    """Jobs that come, run, fail, are retried, cancelled, redriven, deleted, taken back and expire."""
    for number in range(120):
        message = bench.submit(rng.choice(["alice", "bob"]))
        job_id, steps = message.job_id, rng.randrange(8)
        if steps > 0:
            bench.claim(message, lease_s=rng.choice([0.0, 9.0]))
        if steps in (2, 3):
            bench.succeed(message)
        elif steps in (4, 5):
            bench.ledger.fail(job_id, 1, job_error(WorkerLost), max_attempts=rng.choice([1, 3]))
        elif steps == 6:
            bench.ledger.cancel(job_id)
            bench.ledger.redrive(job_id)
        elif steps == 7:
            bench.ledger.cancel(job_id)
            bench.ledger.delete(job_id)
        for expired, attempt in bench.ledger.expired_leases(limit=number % 2):
            bench.ledger.take_back(expired, attempt, max_attempts=1)
        bench.clock.advance(0.1)
    bench.ledger.expire(job_ttl_s=8)


# ---- a Redis that is full ----
def test_a_full_redis_takes_no_new_job_and_lets_the_others_end(own_server: EmbeddedServer) -> None:
    with redis_bench(own_server, "t:") as bench, own_server.client() as client:
        queued, retried, done, cancelled, failed = (bench.submit() for _ in range(5))
        silent = bench.running(lease_s=0)
        assert bench.claim(retried) and bench.claim(failed)
        bench.ledger.fail(failed.job_id, 1, job_error(WorkerLost))
        client.config_set("maxmemory", "1mb")
        for refused in (
            lambda: submit(bench.ledger),
            lambda: bench.ledger.redrive(failed.job_id),
            lambda: bench.ledger.hold_key("a", "k", holder="h", hold_s=1),
        ):
            with pytest.raises(StoreFull):
                refused()
        assert bench.claim(done) and bench.succeed(done)
        assert bench.claim(queued) and bench.ledger.renew(queued.job_id, 1, lease_s=9)
        assert bench.ledger.progress(queued.job_id, 1, Progress(done=0, total=1))
        assert bench.ledger.fail(retried.job_id, 1, job_error(WorkerLost), max_attempts=2)
        assert bench.ledger.take_back(silent.job_id, 1, max_attempts=2)
        assert bench.ledger.republish(replace(silent, attempt=2, number=8))
        bench.ledger.cancel(cancelled.job_id)
        assert len(bench.all_jobs(JobFilter(), limit=2)) == 6
        bench.ledger.delete(cancelled.job_id)
        assert len(bench.ledger.expire(job_ttl_s=0)) == 2
        client.config_set("maxmemory", "0")
        submit(bench.ledger)
        assert assert_books_agree(client, "t:") == 4
