"""Idempotency-Key: one job, however often the request is sent."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from jobs.errors import StoreUnavailable
from jobs.ledger.interface import JobFilter
from jobs.ledger.redis import RedisLedger
from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from service.http import idempotency
from tests.integration.api.test_jobs import PRODUCT, SEEDED, fail, newer_than, newest, problem, submit
from tools.harness.api import Api, npy, running_api, until


def keyed(key: str, **more: str) -> dict[str, str]:
    return {"idempotency-key": key, "prefer": "respond-async", **more}


def count_jobs(api: Api) -> int:
    return len(api.ledger.list(JobFilter(), limit=200).jobs)


def test_the_same_request_is_the_same_job(api: Api, quiet: httpx.Client) -> None:
    key, before = new_id("key"), count_jobs(api)
    first = quiet.post("/v1/matmul", json=SEEDED, headers=keyed(key))
    assert "idempotent-replayed" not in first.headers
    reordered = {"b": SEEDED["b"], "kernel": "auto", "a": SEEDED["a"]}  # the same, written down another way
    for body in (SEEDED, reordered):
        again = quiet.post("/v1/matmul", json=body, headers=keyed(key))
        assert (again.status_code, again.headers["idempotent-replayed"]) == (202, "true")
        assert again.json()["job"]["id"] == first.json()["job"]["id"]
    assert count_jobs(api) == before + 1


def test_a_replay_gives_the_product_once_it_is_there(api: Api, quiet: httpx.Client) -> None:
    key = new_id("key")
    job_id = quiet.post("/v1/matmul", json=SEEDED, headers=keyed(key)).json()["job"]["id"]
    api.succeed(job_id, PRODUCT)
    again = quiet.post("/v1/matmul", json=SEEDED, headers={"idempotency-key": key})
    assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
    assert again.json()["c"] == PRODUCT.tolist()


@pytest.mark.parametrize(
    "changes",
    [{"transpose_a": True}, {"a": {"random": {"shape": [3, 4], "seed": 1}}}, {"a": [[1, 2, 3, 4]]}, {"verify": "off"}],
)
def test_another_request_with_the_key_is_refused(quiet: httpx.Client, changes: dict[str, Any]) -> None:
    key = new_id("key")
    assert quiet.post("/v1/matmul", json=SEEDED, headers=keyed(key)).status_code == 202
    problem(quiet.post("/v1/matmul", json=SEEDED | changes, headers=keyed(key)), 422, "idempotency_key_reused")


def test_elements_count(api: Api, quiet: httpx.Client) -> None:
    """Also those of files, large and small; boundaries and the order of parts do not. Nothing is left of replays."""
    rng = np.random.default_rng(0)
    for size in (3, 700):  # kept in memory; streamed into the store
        key = new_id("key")
        a, b = rng.standard_normal((2, size, size))
        first = quiet.post("/v1/matmul", files={"a": npy(a), "b": npy(b)}, headers=keyed(key))
        stored = api.stored_bytes()
        again = quiet.post("/v1/matmul", files={"b": npy(b), "a": npy(a)}, headers=keyed(key))
        assert again.json()["job"]["id"] == first.json()["job"]["id"]
        other = quiet.post("/v1/matmul", files={"a": npy(b), "b": npy(a)}, headers=keyed(key))
        problem(other, 422, "idempotency_key_reused")
        assert api.stored_bytes() == stored


def test_while_the_first_runs_it_is_409(api: Api, quiet: httpx.Client) -> None:
    key, last = new_id("key"), newest(api)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(quiet.post, "/v1/matmul", json=SEEDED, headers={"idempotency-key": key})
        job_id = newer_than(api, last)
        refused = quiet.post("/v1/matmul", json=SEEDED, headers=keyed(key))
        assert problem(refused, 409, "idempotency_key_in_use")["retry_after_s"] == 1
        api.succeed(job_id, PRODUCT)
        assert first.result(60).json()["job"]["id"] == job_id
    until(lambda: quiet.post("/v1/matmul", json=SEEDED, headers=keyed(key)).status_code == 200)


def test_a_client_that_left_frees_its_key(api: Api, quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job is recorded, so whoever asks again gets that job, at once."""
    monkeypatch.setattr(idempotency, "HOLD_S", 600.0)  # it does not end by itself
    key, last, body = new_id("key"), newest(api), json.dumps(SEEDED)
    head = f"POST /v1/matmul HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: {key}\r\nPrefer: wait=60\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    parts = urlsplit(api.url)
    with socket.create_connection((parts.hostname, parts.port)) as leaving:
        leaving.sendall((head + body).encode())
        job_id = newer_than(api, last)
        problem(quiet.post("/v1/matmul", json=SEEDED, headers=keyed(key)), 409, "idempotency_key_in_use")
    until(lambda: quiet.post("/v1/matmul", json=SEEDED, headers=keyed(key)).status_code == 202)
    again = quiet.post("/v1/matmul", json=SEEDED, headers=keyed(key))
    assert (again.json()["job"]["id"], again.headers["idempotent-replayed"]) == (job_id, "true")

    def patiently() -> httpx.Response:
        """Those below may have the key when it comes."""
        while (reply := quiet.post("/v1/matmul", json=SEEDED, headers={"idempotency-key": key})).status_code == 409:
            pass
        return reply

    with ThreadPoolExecutor(1) as pool:  # and may wait for it, also where the end is sent to the first one's process
        waiting = pool.submit(patiently)
        until(lambda: quiet.post("/v1/matmul", json=SEEDED, headers=keyed(key)).status_code == 409)
        api.succeed(job_id, PRODUCT)
        assert waiting.result(60).json()["c"] == PRODUCT.tolist()


def test_a_retry_that_a_crash_cut_off_is_not_done_twice(
    api: Api, quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job and its key change in one step, so nothing can come between."""
    job_id, key = submit(quiet), new_id("key")
    api.ledger.cancel(job_id)

    def crash(*_: object) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as patched:
        patched.setattr(RedisLedger, "bind_key", crash)
        assert quiet.post(f"/v1/jobs/{job_id}/retry", headers=keyed(key)).status_code == 202
    fail(api, job_id)
    again = quiet.post(f"/v1/jobs/{job_id}/retry", headers=keyed(key))
    assert (again.status_code, again.headers["idempotent-replayed"]) == (202, "true")
    assert (again.json()["job"]["state"], again.json()["job"]["attempt"]) == ("failed", 2)


@pytest.mark.parametrize("path", ["retry", "many"])
def test_retries_are_jobs_that_wait(valkey: EmbeddedServer, tmp_path: Path, path: str) -> None:
    with (
        running_api(valkey, f"{new_id('quota')}:", tmp_path, max_queued_jobs_per_key=3) as api,
        api.client() as client,
    ):
        jobs = []
        for _ in range(6):
            jobs.append(submit(client))
            api.ledger.cancel(jobs[-1])
        if path == "retry":
            statuses = [client.post(f"/v1/jobs/{job_id}/retry").status_code for job_id in jobs]
            assert statuses == [202] * 3 + [429] * 3
        else:
            data = {"action": "retry", "scope": "all", "state": "cancelled"}
            did = client.post("/ui/jobs/many", data=data).headers["location"]
            assert "changed=3" in did and "left=3" in did
        assert len(api.ledger.list(JobFilter(state=JobState.QUEUED), limit=10).jobs) == 3


def test_parallel_requests_make_one_job(api: Api, quiet: httpx.Client) -> None:
    key, before = new_id("key"), count_jobs(api)

    def send(_: int) -> httpx.Response:
        return quiet.post("/v1/matmul", json=SEEDED, headers=keyed(key))

    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(send, range(24)))
    assert {reply.status_code for reply in replies} <= {202, 409}
    assert len({reply.json()["job"]["id"] for reply in replies if reply.status_code == 202}) == 1
    assert count_jobs(api) == before + 1


def test_a_refused_request_does_not_use_the_key_up(quiet: httpx.Client) -> None:
    key = new_id("key")
    problem(quiet.post("/v1/matmul", json=SEEDED | {"b": [[1]]}, headers=keyed(key)), 422, "shape_mismatch")
    assert quiet.post("/v1/matmul", json=SEEDED, headers=keyed(key)).status_code == 202


def test_retry_and_cancel_are_replayed(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    fail(api, job_id)
    key = new_id("key")
    first = quiet.post(f"/v1/jobs/{job_id}/retry", headers=keyed(key))
    again = quiet.post(f"/v1/jobs/{job_id}/retry", headers=keyed(key))
    assert (first.status_code, again.status_code, again.headers["idempotent-replayed"]) == (202, 202, "true")
    assert again.json()["job"]["attempt"] == 2
    problem(quiet.post(f"/v1/jobs/{submit(quiet)}/cancel", headers=keyed(key)), 422, "idempotency_key_reused")
    key = new_id("key")
    first = quiet.post(f"/v1/jobs/{job_id}/cancel", headers=keyed(key))
    again = quiet.post(f"/v1/jobs/{job_id}/cancel", headers=keyed(key))
    assert (first.status_code, again.status_code, again.headers["idempotent-replayed"]) == (202, 202, "true")
    assert quiet.post(f"/v1/jobs/{job_id}/cancel", headers=keyed(new_id("key"))).status_code == 200


def test_uploads(quiet: httpx.Client) -> None:
    key, kind = new_id("key"), {"content-type": "application/x-npy"}
    one, two = npy(np.full((2, 2), 7.25)), npy(np.full((2, 2), 7.5))
    first = quiet.post("/v1/matrices", content=one, headers=keyed(key) | kind)
    again = quiet.post("/v1/matrices", content=one, headers=keyed(key) | kind)
    assert (first.status_code, again.status_code, again.headers["idempotent-replayed"]) == (201, 201, "true")
    assert again.json() == first.json()
    stored = [quiet.post("/v1/matrices", content=one, headers=keyed("stored already") | kind) for _ in range(2)]
    assert [reply.status_code for reply in stored] == [200, 200]
    problem(quiet.post("/v1/matrices", content=two, headers=keyed(key) | kind), 422, "idempotency_key_reused")


def test_a_key_that_an_earlier_version_bound(api: Api, quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It bound the subject without the reply's status."""
    bind, key, body = RedisLedger.bind_key, new_id("key"), {"data": [[0.125, 0.375]]}
    with monkeypatch.context() as patched:
        patched.setattr(RedisLedger, "bind_key", lambda self, owner, at, told: bind(self, owner, at, told.split()[-1]))
        first = quiet.post("/v1/matrices", json=body, headers=keyed(key))
    again = quiet.post("/v1/matrices", json=body, headers=keyed(key))
    assert (first.status_code, again.status_code, again.headers["idempotent-replayed"]) == (201, 200, "true")
    assert again.json() == first.json()


def test_an_upload_is_stored_again_once_its_matrix_is_gone(quiet: httpx.Client) -> None:
    key, body = new_id("key"), {"data": [[3.5, 7.75]]}
    path = quiet.post("/v1/matrices", json=body, headers=keyed(key)).headers["location"]
    assert quiet.delete(path).status_code == 204
    again = quiet.post("/v1/matrices", json=body, headers=keyed(key))
    assert (again.status_code, again.headers["location"], "idempotent-replayed" in again.headers) == (201, path, False)
    assert quiet.post("/v1/matrices", json=body, headers=keyed(key)).headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize("key", ["", "x" * 256, "ü"])
def test_keys_that_are_none(quiet: httpx.Client, key: str) -> None:
    headers = [(b"idempotency-key", key.encode("latin-1")), (b"content-type", b"application/json")]
    refused = quiet.post("/v1/matmul", content=json.dumps(SEEDED), headers=httpx.Headers(headers))
    assert problem(refused, 400, "invalid_header")["field"] == "Idempotency-Key"
