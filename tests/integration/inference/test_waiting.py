"""How a call under /v2 ends that gets no product: an error with a sentence, and a job in a known state."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

from jobs.errors import VerificationFailed
from jobs.ledger.codec import job_error
from jobs.ledger.interface import JobFilter
from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from tools.harness.api import Api, running_api, until

INFER = "/v2/models/matmul/infer"
ONE = {"shape": [1, 1], "datatype": "FP32", "data": [3.0]}


def asked(**parameters: Any) -> dict[str, Any]:
    return {"inputs": [{"name": "A"} | ONE, {"name": "B"} | ONE], "parameters": parameters}


@pytest.fixture(scope="module")
def hasty(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One that lets no one wait for long; its jobs are not run."""
    directory = tmp_path_factory.mktemp("hasty")
    with running_api(valkey, f"{new_id('hasty')}:", directory, default_wait_s=0.1, max_wait_s=0.2) as api:
        yield api


def error_of(reply: httpx.Response, status: int) -> str:
    problem = reply.json()
    assert reply.status_code == status and problem["error"] == problem["detail"]
    return str(problem["error"])


def test_without_a_timeout_the_job_goes_on(hasty: Api) -> None:
    with hasty.client() as client:
        headers = {"idempotency-key": "once"}
        reply = client.post(INFER, json=asked(), headers=headers)
        job = reply.json()["job"]
        assert error_of(reply, 503).endswith(f"its job goes on; see /v1/jobs/{job}.")
        assert reply.headers["retry-after"] == "1" and reply.headers["location"] == f"/v1/jobs/{job}"
        hasty.succeed(job, np.array([[9.0]], np.float32))
        again = client.post(INFER, json=asked(), headers=headers)
        assert again.json()["outputs"][0]["data"] == [9.0] and again.json()["parameters"]["job"] == job


def test_with_a_timeout_it_is_cancelled(hasty: Api) -> None:
    with hasty.client() as client:
        reply = client.post(INFER, json=asked(timeout=20_000))
        assert error_of(reply, 503).endswith("its job was cancelled.")
        assert client.get(reply.headers["location"]).json()["state"] == "cancelled"
        patient = client.post(INFER, json=asked(timeout=3_600_000_000))  # longer than anyone may wait here
        assert "its job goes on" in error_of(patient, 503)


def test_a_job_that_fails_is_an_error(api: Api, quiet: httpx.Client) -> None:
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(quiet.post, INFER, json=asked())
        until(lambda: api.ledger.list(JobFilter(), limit=1).jobs)
        job = api.ledger.list(JobFilter(), limit=1).jobs[0].id
        api.claim(job)
        api.ledger.fail(job, 1, job_error(VerificationFailed))
        assert "did not pass its check" in error_of(answer.result(), 500)


def test_grpc_is_refused_with_a_sentence(api: Api) -> None:
    with socket.create_connection(("127.0.0.1", api.settings.port), timeout=60) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400") and b'"error":"This is not HTTP/1.1' in answer
