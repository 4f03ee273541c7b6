"""Redis killed, frozen, or full: 503 with Retry-After within a second, and the service recovers by itself."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from service.http import idempotency
from tests.integration.api.test_jobs import ASYNC, PRODUCT, SEEDED, newer_than, newest, problem, submit
from tests.support.prompt import within
from tests.support.servers import DURABLE
from tools.harness.api import FAKE_TTL_S, JSON, Api, npy, running_api, until, worker_info

WITHIN_S = 1.0


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server that the test may stop."""
    server = EmbeddedServer(tmp_path / "valkey", options=DURABLE)
    server.start()
    yield server
    if server.running:
        os.kill(server.pid, signal.SIGCONT)
    server.stop()


@pytest.fixture
def api(own_valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> Iterator[Api]:
    """With the patience that it has by default."""
    own = {"sweeper": True, "redis_timeout_s": Settings().redis_timeout_s}
    with running_api(own_valkey, key_prefix, tmp_path, **own) as running:
        yield running


def every_kind(client: httpx.Client) -> list[httpx.Response]:
    """Requests that need the store, each answered in time."""
    ask: list[Callable[[], httpx.Response]] = [
        lambda: client.post("/v1/matmul", json=SEEDED),
        lambda: client.post("/v1/matmul", json={"a": [[1]], "b": [[1]]}, headers={"idempotency-key": "k"}),
        lambda: client.post("/v1/matmul", files={"a": npy(PRODUCT.T.copy()), "b": npy(PRODUCT)}),
        lambda: client.get("/v1/jobs"),
        lambda: client.get(f"/v1/jobs/{new_id('job')}"),
        lambda: client.post(f"/v1/jobs/{new_id('job')}/cancel"),
        lambda: client.post("/v1/matrices", json={"data": [[1, 2]]}),
        lambda: client.get("/v1/devices"),
        lambda: client.get("/readyz"),
        lambda: client.get("/metrics"),
    ]
    return [within(WITHIN_S, each) for each in ask]


def check_all_503(client: httpx.Client) -> None:
    for reply in every_kind(client):
        problem(reply, 503, "store_unavailable")
        assert int(reply.headers["retry-after"]) >= 1
    assert client.get("/livez").status_code == 200
    with ThreadPoolExecutor(50) as pool:  # also where many ask at once
        replies = within(3 * WITHIN_S, lambda: list(pool.map(lambda _: client.get("/v1/jobs"), range(100))))
        assert {reply.status_code for reply in replies} == {503}


def test_killed(api: Api, own_valkey: EmbeddedServer) -> None:
    with api.client() as client:
        job_id = submit(client)
        own_valkey.kill()
        check_all_503(client)
        own_valkey.start()
        until(lambda: client.get(f"/v1/jobs/{job_id}").status_code == 200)
        assert client.post("/v1/matmul", json=SEEDED, headers={"prefer": "respond-async"}).status_code == 202


def test_frozen(api: Api, own_valkey: EmbeddedServer) -> None:
    with api.client() as client:
        job_id = submit(client)
        os.kill(own_valkey.pid, signal.SIGSTOP)
        check_all_503(client)
        os.kill(own_valkey.pid, signal.SIGCONT)
        until(lambda: client.get(f"/v1/jobs/{job_id}").status_code == 200)


def test_who_waits_for_a_job_waits_an_outage_out(api: Api, own_valkey: EmbeddedServer) -> None:
    with api.client() as client, ThreadPoolExecutor(1) as pool:
        last = newest(api)
        product = pool.submit(client.post, "/v1/matmul", json=SEEDED)
        job_id = newer_than(api, last)
        own_valkey.kill()
        time.sleep(1.0)  # long enough for the hub to find it gone and come back to nothing
        own_valkey.start()
        api.succeed(job_id, PRODUCT)
        assert product.result(60).json()["c"] == PRODUCT.tolist()


def test_full(own_valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> None:
    """What is there can still be read, cancelled and deleted; the rest goes on when there is memory again."""
    with running_api(own_valkey, key_prefix, tmp_path, store="redis") as api, api.client() as client:
        job_id = submit(client)
        with own_valkey.client() as admin:
            admin.config_set("maxmemory", admin.info("memory")["used_memory"] + 1000)
            big = npy(np.ones((300, 300)))
            for reply in (
                client.post("/v1/matrices", content=big, headers={"content-type": "application/x-npy"}),
                client.post("/v1/matmul", files={"a": big, "b": big}),
            ):
                assert problem(reply, 503, "store_full")["retry_after_s"] == int(reply.headers["retry-after"])
            assert client.get(f"/v1/jobs/{job_id}").status_code == 200
            assert client.post(f"/v1/jobs/{job_id}/cancel").status_code == 202
            admin.config_set("maxmemory", 0)
        api.registry.beat(worker_info(), FAKE_TTL_S)
        assert client.post("/v1/matmul", files={"a": big, "b": big}, headers={"prefer": "respond-async"}).is_success


@pytest.fixture
def long_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """No hold of a key ends by itself while a test lasts."""
    monkeypatch.setattr(idempotency, "HOLD_S", 600.0)


@pytest.mark.usefixtures("long_holds")
def test_a_key_is_free_as_soon_as_redis_is_back_that_carried_out_its_hold_too_late(
    api: Api, own_valkey: EmbeddedServer
) -> None:
    """The call that takes the key gets no answer in time, and is carried out all the same."""
    key = {"idempotency-key": new_id("key")}
    with api.client() as client:
        first = client.post("/v1/matmul", json=SEEDED, headers={"idempotency-key": new_id("key")} | ASYNC)
        assert first.status_code == 202  # there is a connection, so that the call is on its way before it fails
        os.kill(own_valkey.pid, signal.SIGSTOP)
        problem(client.post("/v1/matmul", json=SEEDED, headers=key | ASYNC), 503, "store_unavailable")
        os.kill(own_valkey.pid, signal.SIGCONT)
        until(lambda: client.post("/v1/matmul", json=SEEDED, headers=key | ASYNC).status_code == 202)


@pytest.mark.usefixtures("long_holds")
def test_a_key_is_free_as_soon_as_redis_is_back(api: Api, own_valkey: EmbeddedServer) -> None:
    """Though it could not be let go of while Redis did not answer."""
    key = {"idempotency-key": new_id("key")}
    with api.client() as client, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(client.post, "/v1/matmul", content=stopped_midway(own_valkey), headers=key | JSON)
        problem(slow.result(60), 503, "store_unavailable")
        os.kill(own_valkey.pid, signal.SIGCONT)
        until(lambda: client.post("/v1/matmul", json=SEEDED, headers=key | ASYNC).status_code == 202)


def stopped_midway(server: EmbeddedServer) -> Iterator[bytes]:
    """A body that is sent while the server serves first, and then does not."""
    yield b" "
    with server.client() as root:
        until(lambda: root.keys("*:hold:*"))
    os.kill(server.pid, signal.SIGSTOP)
    yield json.dumps(SEEDED).encode()
