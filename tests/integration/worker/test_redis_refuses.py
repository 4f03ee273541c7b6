"""The end of an attempt reaches a Redis that refuses for a moment, in each way in which it can. One child, in this
process, on a real Redis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis

from jobs.errors import JobFailed, NoRoomForProduct, StoreFull, StoreUnavailable, VerificationFailed
from jobs.ledger.interface import Claimed
from jobs.redis.connections import Connections
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from tests.support.ledger.ledgers import outcome
from tests.support.workers.workers import WorkerBench, until
from worker.cpu.runner import CpuRunner
from worker.process import ends
from worker.process.child import Child
from worker.product.multiply import Multiplied

A = np.ones((3, 4), np.float32)
ENDS: dict[str, tuple[Multiplied | JobFailed, JobState]] = {
    "succeed": (Multiplied(outcome(), None), JobState.SUCCEEDED),
    "fail": (VerificationFailed(), JobState.QUEUED),
    "give_back": (NoRoomForProduct(), JobState.QUEUED),
}


@pytest.fixture
def bench(own_server: EmbeddedServer, tmp_path: Path) -> Iterator[WorkerBench]:
    bench = WorkerBench(own_server, tmp_path)
    yield bench
    bench.client.close()


@contextmanager
def configured(client: redis.Redis, setting: str, value: str) -> Iterator[None]:
    before = client.config_get(setting)[setting]
    assert before is not None
    client.config_set(setting, value)
    try:
        yield
    finally:
        client.config_set(setting, before)


@contextmanager
def replica(client: redis.Redis) -> Iterator[None]:
    client.replicaof("127.0.0.1", 1)
    try:
        yield
    finally:
        client.replicaof("NO", "ONE")


@contextmanager
def failed_snapshot(client: redis.Redis, directory: Path) -> Iterator[None]:
    """As where the disk is full: the server cannot write a file of its own."""
    (directory / "dump.rdb" / "in its way").mkdir(parents=True)
    with configured(client, "save", "3600 1"):
        client.bgsave()
        until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", timeout_s=60, what="the failure")
        yield


@contextmanager
def busy(client: redis.Redis, server: EmbeddedServer) -> Iterator[None]:
    """A script that does not end."""
    with (
        configured(client, "busy-reply-threshold", "1"),
        server.client(timeout_s=60.0) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        endless = pool.submit(other.eval, "while true do end", 0)
        try:
            until(lambda: _is_busy(client), timeout_s=60, what="a busy server")
            yield
        finally:
            client.script_kill()
            assert isinstance(endless.exception(), redis.ResponseError)


def _is_busy(client: redis.Redis) -> bool:
    try:
        return not client.ping()
    except redis.ResponseError as error:
        return str(error).startswith("BUSY")


@contextmanager
def new_connections(client: redis.Redis) -> Iterator[None]:
    """Those that there are break, but for this one."""
    client.client_kill_filter(_type="normal", skipme=True)
    yield


@contextmanager
def loading(bench: WorkerBench) -> Iterator[None]:
    """Played: a server that loads so little is done at once."""

    def refuse(*_: Any) -> None:
        raise redis.BusyLoadingError("Redis is loading the dataset in memory", status_code="LOADING")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connections, "ask", refuse)
        yield


@contextmanager
def refusing(how: str, bench: WorkerBench, client: redis.Redis) -> Iterator[None]:
    refusals: dict[str, Callable[[], Any]] = {
        "OOM": lambda: configured(client, "maxmemory", "1mb"),
        "NOREPLICAS": lambda: configured(client, "min-replicas-to-write", "1"),
        "READONLY": lambda: replica(client),
        "MISCONF": lambda: failed_snapshot(client, bench.server.directory),
        "BUSY": lambda: busy(client, bench.server),
        "maxclients": lambda: configured(client, "maxclients", "1"),
        "wrong password": lambda: configured(client, "requirepass", "another"),
        "LOADING": lambda: loading(bench),
    }
    with ExitStack() as stack:
        stack.enter_context(refusals[how]())
        if how in ("maxclients", "wrong password"):
            stack.enter_context(new_connections(client))
        yield


def counted(bench: WorkerBench, refused: Counter[str]) -> Callable[..., Any]:
    """How often which script was refused."""
    run = bench.ledger.scripts.run

    def watched(script: str, *arguments: Any) -> Any:
        try:
            return run(script, *arguments)
        except (StoreUnavailable, StoreFull):
            refused[script] += 1
            raise

    return watched


def claimed(bench: WorkerBench) -> Claimed:
    claim = bench.ledger.claim(bench.submit(A, A.T), 1, worker="w", lease_s=60)
    assert claim is not None
    return claim


@pytest.mark.parametrize(
    "how", ["OOM", "NOREPLICAS", "READONLY", "MISCONF", "BUSY", "maxclients", "wrong password", "LOADING"]
)
def test_no_end_is_lost(bench: WorkerBench, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    child = Child(bench.settings, CpuRunner(bench.settings), bench.ledger, bench.store)
    jobs = {script: claimed(bench) for script in ENDS}
    refused: Counter[str] = Counter()
    monkeypatch.setattr(bench.ledger, "_run", counted(bench, refused))
    with bench.server.client() as client, ThreadPoolExecutor(len(ENDS)) as pool:
        client.ping()  # it is connected before others cannot be
        with refusing(how, bench, client):
            threads = [pool.submit(child._ends.record, [(jobs[script], end)]) for script, (end, _) in ENDS.items()]
            if how == "OOM":  # the end of a job needs no memory
                until(lambda: all(thread.done() for thread in threads), timeout_s=60, what="the ends")
            else:
                until(lambda: len(refused) == len(ENDS), timeout_s=60, what="a refusal of each")
        for thread in threads:
            thread.result()
    for script, (_, state) in ENDS.items():
        record = bench.ledger.get(jobs[script].job.id).record
        assert (record.state, record.attempt) == (state, 1 if state is JobState.SUCCEEDED else 2), script


def test_an_end_is_told_as_long_as_its_job_s_time_lasts(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also past the time after which other steps are given up."""
    monkeypatch.setattr(ends, "WORK_TIMEOUT_S", 0.0)
    test_no_end_is_lost(bench, "READONLY", monkeypatch)
