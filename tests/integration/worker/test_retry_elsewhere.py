"""A job whose product came out wrong is tried again by another worker, where one is idle."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from tests.support.workers.poison import IS_WRONG
from tests.support.workers.workers import END_TIMEOUT_S, running_worker, until

JOBS = 8


def test_an_idle_worker_gets_the_next_attempt(valkey: EmbeddedServer, tmp_path: Path) -> None:
    """One worker's products are wrong at this depth. A job it had twice would fail: there are two attempts."""
    with running_worker(valkey, tmp_path, module="tests.support.workers.poisoned_worker") as bad:
        shared = {"key_prefix": bad.settings.key_prefix, "store_dir": str(bad.settings.store_dir)}
        with running_worker(valkey, tmp_path, overrides=shared) as good:
            until(lambda: len(good.live()) == 2, timeout_s=END_TIMEOUT_S, what="both heartbeats")
            records = []
            for _ in range(JOBS):
                job = good.ended(good.of_depth(IS_WRONG))
                np.testing.assert_array_equal(good.product(job), np.full((3, 4), IS_WRONG, np.float32))
                records.append(job.record)
    assert {record.state for record in records} == {JobState.SUCCEEDED}
    assert {record.attempt for record in records} >= {2}
