"""Idempotency-Key: one job, however often the request is sent."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

from jobs.ledger.interface import JobFilter
from jobs.models import new_id
from tests.integration.api.test_jobs import PRODUCT, SEEDED, fail, newer_than, newest, problem, submit
from tools.played.api import Api, npy, until


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
        assert first.result(10).json()["job"]["id"] == job_id
    until(lambda: quiet.post("/v1/matmul", json=SEEDED, headers=keyed(key)).status_code == 200)


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
    assert quiet.post(f"/v1/jobs/{job_id}/cancel", headers=keyed(key)).status_code == 202
    assert quiet.post(f"/v1/jobs/{job_id}/cancel", headers=keyed(key)).headers["idempotent-replayed"] == "true"


def test_uploads(quiet: httpx.Client) -> None:
    key, kind = new_id("key"), {"content-type": "application/x-npy"}
    one, two = npy(np.full((2, 2), 7.25)), npy(np.full((2, 2), 7.5))
    first = quiet.post("/v1/matrices", content=one, headers=keyed(key) | kind)
    again = quiet.post("/v1/matrices", content=one, headers=keyed(key) | kind)
    assert (first.status_code, again.status_code, again.headers["idempotent-replayed"]) == (201, 200, "true")
    assert again.json() == first.json()
    problem(quiet.post("/v1/matrices", content=two, headers=keyed(key) | kind), 422, "idempotency_key_reused")


@pytest.mark.parametrize("key", ["", "x" * 256, "ü"])
def test_keys_that_are_none(quiet: httpx.Client, key: str) -> None:
    headers = [(b"idempotency-key", key.encode("latin-1")), (b"content-type", b"application/json")]
    refused = quiet.post("/v1/matmul", content=json.dumps(SEEDED), headers=httpx.Headers(headers))
    assert problem(refused, 400, "invalid_header")["field"] == "Idempotency-Key"
