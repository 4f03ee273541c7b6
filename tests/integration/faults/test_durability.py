"""MATMUL_DURABILITY=disk: what is said to be recorded is on the disk, or it is not said."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from jobs.ledger.acceptance import Acceptance
from jobs.ledger.interface import Success
from jobs.models import product_id
from jobs.redis.embedded import EmbeddedServer
from jobs.redis.persistence import server_options
from jobs.redis.replication import warn_of_missing_replicas
from jobs.states import JobState
from tests.integration.api.test_jobs import ASYNC, SEEDED, problem
from tests.support.workers.workers import WorkerBench
from tools.harness.api import npy, running_api, until
from worker.cpu.runner import CpuRunner
from worker.process.child import Child

A = np.ones((30, 40), np.float32)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what was synced: at the time, so a file has its own only once it was renamed."""
    names: list[str] = []
    fsync = os.fsync

    def watched(fd: int) -> None:
        fsync(fd)
        names.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)

    monkeypatch.setattr(os, "fsync", watched)
    return names


@pytest.fixture
def make_bench(own_server: EmbeddedServer, tmp_path: Path) -> Iterator[Callable[..., WorkerBench]]:
    made: list[WorkerBench] = []

    def make(durability: str, **overrides: str) -> WorkerBench:
        made.append(WorkerBench(own_server, tmp_path, overrides={"durability": durability, **overrides}))
        return made[-1]

    yield make
    for bench in made:
        bench.client.close()


def run(bench: WorkerBench, job_id: str) -> None:
    child = Child(bench.settings, CpuRunner(bench.settings), bench.ledger, bench.store)
    child.run(job_id, 1)
    child.wait_until_idle()
    child.heartbeat.stop()
    assert bench.ledger.get(job_id).record.state is JobState.SUCCEEDED


def test_each_file_and_its_name_are_synced_once_it_has_it(
    make_bench: Callable[..., WorkerBench], synced: list[str]
) -> None:
    bench = make_bench("disk")
    synced.clear()
    by_name, by_contents = bench.operand(A, "float32"), bench.operand(A, "float32", inline=False)
    first, directory, second, again = synced
    assert (first, directory, again) == (by_name.matrix, "matrices", "matrices")
    assert second.partition(".")[0] == by_contents.matrix
    assert stat.S_ISREG((bench.settings.store_dir / second).stat().st_mode)


def test_slots_are_synced_too(make_bench: Callable[..., WorkerBench], synced: list[str]) -> None:
    bench = make_bench("disk", store_free_bytes=str(1 << 24))
    synced.clear()
    operand = bench.operand(np.ones((400, 400), np.float32), "float32")
    assert synced == [operand.matrix, "matrices"]


def test_nothing_is_synced_where_only_processes_die(make_bench: Callable[..., WorkerBench], synced: list[str]) -> None:
    bench = make_bench("process")
    synced.clear()
    run(bench, bench.submit(A, A.T))
    assert synced == []


def test_a_product_is_on_the_disk_before_its_job_has_succeeded(
    make_bench: Callable[..., WorkerBench], synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench("disk")
    job_id = bench.submit(A, A.T)
    send, before = bench.ledger.send_successes, []

    def recorded(done: Sequence[Success]) -> Callable[[], Sequence[Acceptance]]:
        before.extend(synced)
        return send(done)

    monkeypatch.setattr(bench.ledger, "send_successes", recorded)
    synced.clear()
    run(bench, job_id)
    assert before == [product_id(job_id, 1), "matrices"]


def test_a_redis_that_does_not_sync_gets_no_202(own_server: EmbeddedServer, key_prefix: str, tmp_path: Path) -> None:
    with own_server.client() as admin, running_api(own_server, key_prefix, tmp_path, durability="disk") as api:
        admin.config_set("appendfsync", "everysec")
        with api.client() as client:
            refused = problem(client.post("/v1/matmul", json=SEEDED, headers=ASYNC), 503, "store_unavailable")
            assert "appendfsync" in refused["detail"]
            assert "appendfsync" in problem(client.get("/readyz"), 503, "store_unavailable")["detail"]
            admin.config_set("appendfsync", "always")
            until(lambda: client.get("/readyz").status_code == 200)
            reply = client.post("/v1/matmul", files={"a": npy(A), "b": npy(A.T.copy())}, headers=ASYNC)
            assert reply.status_code == 202


def test_a_redis_without_the_replicas_that_a_202_waits_for_is_told_of(
    own_server: EmbeddedServer, key_prefix: str, tmp_path: Path
) -> None:
    """Its first 202 would be a 503: that is told before anyone asks for one."""
    with running_api(own_server, key_prefix, tmp_path, redis_replicas=1) as api, api.client() as client:
        told = problem(client.get("/readyz"), 503, "store_unavailable")["detail"]
        assert told.startswith("MATMUL_REDIS_REPLICAS is 1, but Redis has 0 connected replicas"), told
        with capture_logs() as logged:
            warn_of_missing_replicas(api.settings)
    assert [each["reason"] for each in logged] == [told]


def test_a_redis_without_a_file_is_told_of(own_server: EmbeddedServer, key_prefix: str, tmp_path: Path) -> None:
    with (
        own_server.client() as admin,
        running_api(own_server, key_prefix, tmp_path) as api,
        api.client() as client,
    ):
        assert "warnings" not in client.get("/readyz").json()
        admin.config_set("appendonly", "no")
        (warning,) = client.get("/readyz").json()["warnings"]
        assert "append-only file" in warning


def test_our_own_server_syncs_then(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "redis", options=server_options("disk"))
    server.start()
    with server.client() as client:
        assert client.config_get("appendfsync") == {"appendfsync": "always"}
    server.stop()
    assert server_options("process") == ()
