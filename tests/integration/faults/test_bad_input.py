"""What bad input gets: a clear problem that names the thing, nothing stored, no job, never a 5xx."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from tests.integration.api.test_jobs import newest, problem
from tests.support.http.bad_bodies import BODIES
from tests.support.http.bad_requests import F32, MAX_BODY, MAX_JSON, MAX_MATRIX, OK, REQUESTS, TENSORS, Case
from tools.harness.api import Api, npy, running_api


@pytest.fixture(scope="module")
def api(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One with small limits."""
    limits = {"max_body_bytes": MAX_BODY, "max_json_bytes": MAX_JSON, "max_matrix_bytes": MAX_MATRIX}
    with running_api(valkey, f"{new_id('bad')}:", tmp_path_factory.mktemp("bad"), **limits) as running:
        yield running


def send(quiet: httpx.Client, case: Case) -> httpx.Response:
    return quiet.post(case.path, json=case.json, content=case.content, files=case.files, headers=case.headers)


@pytest.mark.parametrize("case", [*REQUESTS, *BODIES], ids=lambda case: case.id)
def test_it_is_told_and_nothing_is_kept(api: Api, quiet: httpx.Client, case: Case) -> None:
    job, kept = newest(api), api.stored_bytes()
    document = problem(send(quiet, case), case.status, case.kind)
    assert case.words in document["detail"]
    assert document.get("field") == case.field
    assert len(document["detail"]) < 400 and not re.search(r"[.!?] +[A-Z]", document["detail"])
    assert document["detail"].isprintable()
    assert (newest(api), api.stored_bytes()) == (job, kept)
    assert not [path for path in api.settings.store_dir.iterdir() if path.is_file()]


def test_the_limit_counts_chunked_bodies_too(quiet: httpx.Client) -> None:
    for kind, limit in (("application/json", MAX_JSON), (TENSORS, MAX_BODY)):
        chunks = (b" " * 1000 for _ in range(limit // 1000 + 1))
        reply = quiet.post("/v1/matmul", content=chunks, headers={"content-type": kind})
        if kind == TENSORS:  # the header that these spaces are is refused before the limit is reached
            assert reply.status_code == 422
        else:
            assert problem(reply, 413, "body_too_large")["limit_bytes"] == limit


def test_the_limit_is_exact(quiet: httpx.Client) -> None:
    body = json.dumps(OK).encode()
    headers = {"content-type": "application/json", "prefer": "respond-async"}
    assert quiet.post("/v1/matmul", content=body.ljust(MAX_JSON), headers=headers).status_code == 202
    problem(quiet.post("/v1/matmul", content=body.ljust(MAX_JSON + 1), headers=headers), 413, "body_too_large")


def test_an_early_refusal_does_not_wait_for_the_body(api: Api) -> None:
    """Shapes that do not fit are told at the second header, while most of the body has still to come."""
    part = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n'
    a, b = npy(np.ones((20, 20), F32)), npy(np.ones((201, 200), F32))
    start = part % b"options" + b"{}\r\n" + part % b"a" + a + b"\r\n" + part % b"b" + b[: 100 << 10]
    connection = http.client.HTTPConnection(api.url.removeprefix("http://"), timeout=60)
    connection.putrequest("POST", "/v1/matmul")
    connection.putheader("content-type", "multipart/form-data; boundary=x")
    connection.putheader("content-length", str(MAX_BODY))
    connection.endheaders(start)
    reply = connection.getresponse()
    assert (reply.status, json.loads(reply.read())["type"]) == (422, "/problems/shape_mismatch")
    connection.close()


@pytest.mark.parametrize(
    "path", ["/v1/nope", "/v1/jobs/", "/V1/jobs", "//v1/jobs", "/v1/jobs/%2e%2e", "/v1/kernels/nope"]
)
def test_unknown_paths(quiet: httpx.Client, path: str) -> None:
    assert quiet.get(path).status_code == 404
    assert quiet.get(path).headers["content-type"] == "application/problem+json"


def test_wrong_methods(quiet: httpx.Client) -> None:
    for method, path, allowed in (
        ("DELETE", "/v1/matmul", "POST"),
        ("GET", "/v1/matmul", "POST"),
        ("PATCH", "/v1/jobs", "GET, HEAD"),
        ("POST", "/livez", "GET, HEAD"),
        ("OPTIONS", "/v1/benchmarks", "GET, HEAD, POST"),
        ("OPTIONS", f"/v1/matrices/{'0' * 64}", "DELETE, GET, HEAD, PUT"),
    ):
        reply = quiet.request(method, path)
        problem(reply, 405, "method_not_allowed")
        assert reply.headers["allow"] == allowed


@pytest.mark.parametrize(
    "query", ["state=done", "limit=0", "limit=x", "limit=201", "cursor=zzz", "kernel=k", "sort=up"]
)
def test_queries(quiet: httpx.Client, query: str) -> None:
    assert problem(quiet.get(f"/v1/jobs?{query}"), 422, "invalid_request")["field"] == query.partition("=")[0]
