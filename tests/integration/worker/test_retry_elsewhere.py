"""A job whose product came out wrong is made by another worker, if there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from jobs.errors import VerificationFailed
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from tests.support.workers.poison import IS_WRONG
from tests.support.workers.workers import END_TIMEOUT_S, WorkerBench, running_worker, until
from worker.process.ended_child import worker_id

# A stopped worker counts as a busy one, however long the other takes to start.
LIVES = {"worker_ttl_s": "300", "lease_s": "300", "sweep_grace_s": "300", "max_attempts": "3"}


def counted(bench: WorkerBench, name: str) -> int:
    """By the ledger."""
    count: Any = bench.client.hget(f"{bench.settings.key_prefix}counts", name)
    return int(count or 0)


def workers_known(bench: WorkerBench) -> int:
    return counted(bench, "workers:cpu")


def messages_sent(bench: WorkerBench) -> int:
    return counted(bench, "number:cpu")


def test_a_wrong_product_is_made_by_another_worker(valkey: EmbeddedServer, tmp_path: Path) -> None:
    """Also one that is busy: the worker whose products are wrong at this depth is at rest, is sent the job again and
    again, and leaves it. Only once it is alone does it make the next attempt."""
    poisoned = "tests.support.workers.poisoned_worker"
    with running_worker(valkey, tmp_path, overrides=LIVES) as good:
        child = good.child()
        child.suspend()
        before = good.of_depth(5)
        until(lambda: not good.client.llen(f"{good.settings.key_prefix}broker:cpu"), timeout_s=60, what="its message")
        shared = {"key_prefix": good.settings.key_prefix, "store_dir": str(good.settings.store_dir), **LIVES}
        with running_worker(valkey, tmp_path, module=poisoned, overrides=shared) as bad:
            until(lambda: workers_known(bad) == 2, timeout_s=END_TIMEOUT_S, what="both heartbeats")
            wrong, sent = bad.of_depth(IS_WRONG), messages_sent(bad)
            until(lambda: messages_sent(bad) > sent + 3, timeout_s=END_TIMEOUT_S, what="its return to the queue")
            assert bad.ledger.get(wrong).record.attempt == 2
            child.resume()
            job = good.ended(wrong)
            np.testing.assert_array_equal(good.product(job), np.full((3, 4), IS_WRONG, np.float32))
            assert (job.record.state, job.record.attempt) == (JobState.SUCCEEDED, 2)
            assert good.ended(before).record.attempt == 1
            good.stop()
            assert good.process is not None
            bad.registry.gone(worker_id("cpu", good.process.pid))
            until(lambda: workers_known(bad) == 1, timeout_s=END_TIMEOUT_S, what="the other one's end")
            alone = bad.ended(bad.of_depth(IS_WRONG)).record
            assert alone.error and alone.error.type == VerificationFailed.type and alone.attempt == 3
