"""Which part of a path or which header a refusal names, and that the OpenAPI document says so."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.integration.api.test_jobs import PRODUCT, problem, submit
from tools.harness.api import Api


@pytest.fixture(scope="module")
def document(api: Api) -> dict[str, Any]:
    with api.client() as client:
        read: dict[str, Any] = client.get("/openapi.json").json()
        return read


@pytest.mark.parametrize(
    ("part", "name", "values"),
    [
        ("product", "Range", ("bytes=0-1", "bytes=2-3")),
        ("product", "If-Range", ('"one"', '"two"')),
        ("events", "Last-Event-ID", ("1-1", "2-2")),
    ],
)
def test_two_values_are_refused(
    api: Api, quiet: httpx.Client, document: dict[str, Any], part: str, name: str, values: tuple[str, str]
) -> None:
    job_id = submit(quiet)
    api.succeed(job_id, PRODUCT)
    refused = quiet.get(f"/v1/jobs/{job_id}/{part}", headers=[(name, value) for value in values])
    assert problem(refused, 400, "invalid_header")["field"] == name
    assert "400" in document["paths"][f"/v1/jobs/{{job_id}}/{part}"]["get"]["responses"]
    assert quiet.get(f"/v1/jobs/{job_id}/product", headers=[("Range", "bytes=0-1")] * 2).status_code == 206


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/v1/kernels", "/v1/jobs", "/metrics"])
def test_the_walls_are_described(quiet: httpx.Client, document: dict[str, Any], path: str) -> None:
    problem(quiet.get(path, headers={"host": "other.example"}), 403, "forbidden")
    assert {"400", "403"} <= document["paths"][path]["get"]["responses"].keys()


@pytest.mark.parametrize(
    ("path", "method"),
    [("/v1/matrices/{matrix_id}", "put"), ("/v1/matrices/{matrix_id}", "delete"), ("/v1/jobs/{job_id}", "delete")],
)
def test_conditions_of_changes_are_described(document: dict[str, Any], path: str, method: str) -> None:
    described = {each["name"]: each["description"] for each in document["paths"][path][method]["parameters"]}
    assert "412" in described["If-Match"] and "412" in described["If-None-Match"]


@pytest.mark.parametrize(
    ("method", "path", "field"),
    [
        ("POST", "/v1/queues/none/pause", "queue"),
        ("POST", "/v1/workers/none/drain", "worker"),
        ("GET", "/v1/kernels/none/assembly", "name"),
        ("GET", "/v2/models/none", "name"),
        ("GET", "/v2/models/matmul/versions/2/ready", "version"),
        ("POST", "/v2/models/none/infer", "name"),
        ("GET", "/v1/benchmarks/{job}/plots/gflops", "job_id"),
        ("GET", "/v1/benchmarks/{job}/export", "job_id"),
    ],
)
def test_the_part_of_the_path_is_named(quiet: httpx.Client, method: str, path: str, field: str) -> None:
    refused = quiet.request(method, path.format(job=submit(quiet)))
    assert problem(refused, 404, "not_found")["field"] == field
