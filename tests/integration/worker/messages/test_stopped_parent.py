"""A worker whose parent process alone is stopped: its child computes, but no message comes to it any more."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from jobs.redis.embedded import EmbeddedServer
from tests.support.workers.workers import END_TIMEOUT_S, running_worker, until
from worker.process.heartbeat import PARENT_STOPPED


def test_it_counts_as_out_of_service_until_its_parent_runs_again(valkey: EmbeddedServer, tmp_path: Path) -> None:
    with running_worker(valkey, tmp_path, overrides={"worker_ttl_s": "2.0"}) as bench:
        assert bench.process is not None
        os.kill(bench.process.pid, signal.SIGSTOP)
        try:
            told = [("unavailable", PARENT_STOPPED)]
            until(
                lambda: [(each.state, each.reason) for each in bench.registry.known()] == told,
                timeout_s=END_TIMEOUT_S,
                what="a beat that says so",
            )
            assert not bench.live()
            job_id = bench.of_depth(5)
        finally:
            os.kill(bench.process.pid, signal.SIGCONT)
        assert bench.ended(job_id).record.attempt == 1
        until(bench.live, timeout_s=END_TIMEOUT_S, what="a beat that it serves again")
