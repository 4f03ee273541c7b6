"""Workers and API processes that keep matrices elsewhere than the service, or have other settings: they are told."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import httpx
import numpy as np
import pytest

from jobs.fleet.places import AGREED, agreed, identity_of
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from tests.integration.api.test_jobs import SEEDED, problem
from tests.support.stores import move_away
from tests.support.workers.workers import WorkerBench
from tools.harness.api import FAKE_TTL_S, Api, npy, running_api, until, worker_info
from worker.cpu.runner import CpuRunner
from worker.process import heartbeat
from worker.process.child import Child
from worker.process.readiness import NotReady

ASYNC = {"prefer": "respond-async"}
A = np.ones((3, 3), np.float32)


@pytest.fixture
def api(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> Iterator[Api]:
    with running_api(valkey, key_prefix, tmp_path) as running:
        yield running


@pytest.fixture
def make_child(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """A worker's child, in this process, that keeps matrices where it is told to."""
    benches = []

    def make(store_dir: Path, **overrides: str) -> Child:
        own = {"key_prefix": key_prefix, "store_dir": str(store_dir), **overrides}
        bench = WorkerBench(valkey, tmp_path, overrides=own)
        benches.append(bench)
        return Child(bench.settings, CpuRunner(bench.settings), bench.ledger, bench.store)

    yield make
    for bench in benches:
        bench.client.close()


def product(client: httpx.Client) -> httpx.Response:
    return client.post("/v1/matmul", files={"a": npy(A), "b": npy(A)}, headers=ASYNC)


def test_a_worker_of_another_directory_takes_no_jobs_and_everyone_is_told(
    api: Api, quiet: httpx.Client, make_child: Callable[..., Child], tmp_path: Path
) -> None:
    assert product(quiet).status_code == 202
    with pytest.raises(NotReady, match="MATMUL_STORE_DIR"):
        make_child(tmp_path / "elsewhere").prove_ready()
    said = quiet.get("/readyz").json()
    assert said["workers"] == 1 and "MATMUL_STORE_DIR" in said["warnings"][0]
    assert "MATMUL_STORE_DIR" in quiet.get("/ui/devices").text
    api.registry.gone("played")
    until(lambda: product(quiet).status_code == 503)
    for refused in (product(quiet), quiet.get("/readyz")):
        assert "MATMUL_STORE_DIR" in problem(refused, 503, "no_workers")["detail"]
    named = quiet.post("/v1/matmul", json=SEEDED | {"kernel": "cpu_blas"}, headers=ASYNC)
    assert "MATMUL_STORE_DIR" in problem(named, 409, "no_worker_for_kernel")["detail"]
    benchmark = quiet.post("/v1/benchmarks", json={"preset": "quick"})
    assert "MATMUL_STORE_DIR" in problem(benchmark, 503, "no_workers")["detail"]
    (device,) = quiet.get("/v1/devices").json()["devices"]
    assert "MATMUL_STORE_DIR" in device["reason"]


def test_a_worker_of_the_same_store_is_ready(api: Api, quiet: httpx.Client, make_child: Callable[..., Child]) -> None:
    quiet.get("/readyz")
    make_child(api.settings.store_dir).prove_ready()


def test_a_worker_of_another_kind_of_store(api: Api, quiet: httpx.Client, make_child: Callable[..., Child]) -> None:
    quiet.get("/readyz")
    with pytest.raises(NotReady, match="MATMUL_STORE=file"):
        make_child(api.settings.store_dir, store="redis").prove_ready()


def test_a_worker_whose_service_moves_gives_up(
    api: Api,
    quiet: httpx.Client,
    valkey: EmbeddedServer,
    make_child: Callable[..., Child],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quiet.get("/readyz")
    child = make_child(api.settings.store_dir, worker_ttl_s="0.25")
    child.prove_ready()
    ended: Queue[str] = Queue()
    monkeypatch.setattr(child.heartbeat, "_give_up", ended.put)
    monkeypatch.setattr(heartbeat, "MISPLACED_BEATS", 2)
    child.heartbeat.start()
    with running_api(valkey, api.settings.key_prefix, tmp_path / "moved") as moved, moved.client() as client:
        client.get("/readyz")
        assert "MATMUL_STORE_DIR" in ended.get(timeout=60)
    child.heartbeat.stop()


def test_of_two_api_processes_with_other_directories_the_first_says_so(
    api: Api, quiet: httpx.Client, valkey: EmbeddedServer, tmp_path: Path
) -> None:
    assert quiet.get("/readyz").status_code == 200
    with running_api(valkey, api.settings.key_prefix, tmp_path / "second") as second, second.client() as asking:
        assert asking.get("/readyz").status_code == 200
        for refused in (quiet.get("/readyz"), product(quiet)):
            assert "Another API process" in problem(refused, 503, "store_unavailable")["detail"]


def test_a_directory_that_is_made_again_is_the_service_s(api: Api, quiet: httpx.Client) -> None:
    assert quiet.get("/readyz").status_code == 200
    move_away(api.settings.store_dir)
    assert quiet.get("/readyz").status_code == 200
    assert product(quiet).status_code == 202


def test_settings_that_differ_are_told(api: Api, quiet: httpx.Client) -> None:
    theirs = agreed(api.settings) | {"lease_s": 1.5}
    api.registry.beat(worker_info().model_copy(update={"settings": theirs}), FAKE_TTL_S)
    (warning,) = quiet.get("/readyz").json()["warnings"]
    assert warning == "played has other settings: MATMUL_LEASE_S is 1.5 there and 6.0 here."


def test_a_directory_has_one_identity_whoever_asks_first(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: identity_of(tmp_path), range(64)))
    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["identity"]
    shutil.copytree(tmp_path, copy := tmp_path.with_name("copy"), symlinks=True)
    assert identity_of(copy) not in found


def test_what_is_compared_are_settings() -> None:
    assert set(AGREED) <= set(Settings.model_fields)
