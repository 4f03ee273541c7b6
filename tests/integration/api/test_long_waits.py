"""Jobs that wait for longer than anything is kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from tests.integration.api.test_jobs import problem
from tools.harness.api import Api, npy, running_api, until

A, B = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
TTL_S = 1  # of matrices and products


@pytest.fixture(params=["file", "redis"])
def api(request: pytest.FixtureRequest, valkey: EmbeddedServer, tmp_path: Path) -> Iterator[Api]:
    ttls = {"matrix_ttl_s": TTL_S, "product_ttl_s": TTL_S}
    with running_api(valkey, f"{new_id('test')}:", tmp_path, store=request.param, **ttls) as api:
        yield api


@pytest.fixture
def client(api: Api) -> Iterator[httpx.Client]:
    with api.client(prefer="respond-async") as client:
        yield client


def wait_and_sweep(api: Api) -> None:
    """Until all that is not needed must have gone."""
    after_s = time.time() + TTL_S
    until(lambda: time.time() > after_s + 0.05)
    api.store.sweep()


def submit(client: httpx.Client, **request: Any) -> str:
    reply = client.post("/v1/matmul", **request)
    assert reply.status_code == 202, reply.text
    return str(reply.json()["job"]["id"])


def assert_has_operands(api: Api, job_id: str) -> None:
    """As the worker that claims it."""
    for operand in api.claim(job_id).record.operands:
        assert operand.matrix is not None
        with api.store.open(operand.matrix, operand.dtype, operand.shape) as stored:
            stored.verify()


def test_they_find_their_operands_and_so_does_a_retry(api: Api, client: httpx.Client) -> None:
    inline = submit(client, files={"a": npy(A), "b": npy(B)})
    uploaded = client.post("/v1/matrices", content=npy(A), headers={"content-type": "application/x-npy"}).json()["id"]
    by_id = submit(client, json={"a": {"matrix": uploaded}, "b": {"random": {"shape": [4, 2]}}})
    deleted = submit(client, json={"a": {"matrix": uploaded}, "b": {"matrix": uploaded}, "transpose_b": True})
    wait_and_sweep(api)
    assert client.get(f"/v1/matrices/{uploaded}").status_code == 200
    assert client.post(f"/v1/jobs/{by_id}/cancel").status_code == 202
    assert client.post(f"/v1/jobs/{by_id}/retry").status_code == 202
    assert client.delete(f"/v1/matrices/{uploaded}").status_code == 204
    problem(client.get(f"/v1/matrices/{uploaded}"), 404, "matrix_not_found")
    wait_and_sweep(api)
    assert_has_operands(api, inline)
    assert_has_operands(api, deleted)
    for job_id in (inline, deleted, by_id):
        assert client.post(f"/v1/jobs/{job_id}/cancel").status_code == 202
    wait_and_sweep(api)
    assert api.stored_bytes() == 0
    for job_id in (inline, deleted, by_id):
        problem(client.post(f"/v1/jobs/{job_id}/retry"), 409, "operand_missing")
