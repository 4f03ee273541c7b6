"""A job whose product came out wrong is tried again by another worker, where one is idle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil

from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from tests.support.workers.poison import IS_WRONG
from tests.support.workers.workers import END_TIMEOUT_S, WorkerBench, running_worker, until

JOBS = 12


def is_idle(worker: WorkerBench) -> bool:
    """Its parent waits for a message, in Redis."""
    assert worker.process is not None
    ports = {str(each.laddr.port) for each in psutil.Process(worker.process.pid).net_connections("tcp")}
    waiting = (each for each in worker.client.client_list() if each["cmd"] == "brpop")
    return any(each["addr"].rpartition(":")[2] in ports for each in waiting)


def test_an_idle_worker_gets_the_next_attempt(valkey: EmbeddedServer, tmp_path: Path) -> None:
    """One worker's products are wrong at this depth. Redis serves who has waited longest. A wait ends each second and
    begins anew, so once in a while the other one has just let go: a job may be unlucky, not more."""
    attempts = {"max_attempts": "4"}
    with running_worker(valkey, tmp_path, module="tests.support.workers.poisoned_worker", overrides=attempts) as bad:
        shared = {"key_prefix": bad.settings.key_prefix, "store_dir": str(bad.settings.store_dir), **attempts}
        with running_worker(valkey, tmp_path, overrides=shared) as good:
            until(lambda: len(good.live()) == 2, timeout_s=END_TIMEOUT_S, what="both heartbeats")
            records = []
            for _ in range(JOBS):
                until(lambda: is_idle(good) and is_idle(bad), timeout_s=END_TIMEOUT_S, what="both at rest")
                job = good.ended(good.of_depth(IS_WRONG))
                np.testing.assert_array_equal(good.product(job), np.full((3, 4), IS_WRONG, np.float32))
                records.append(job.record)
    assert {record.state for record in records} == {JobState.SUCCEEDED}
    assert {record.attempt for record in records} >= {2}
    assert sum(record.attempt > 2 for record in records) <= 1
