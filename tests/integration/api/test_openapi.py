"""The OpenAPI document: valid, complete, true. It is the manual, so it must be readable too."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from jsonschema.validators import Draft202012Validator

from kernels.catalog import KERNEL_NAMES
from kernels.model.numerics import DTYPE_NAMES
from service.problems import BY_TYPE
from tests.integration.api.test_benchmark_results import done
from tests.integration.api.test_jobs import PRODUCT, SEEDED, fail, newer_than, newest, submit
from tests.openapi.run import ENDLESS, made_up
from tools.harness.api import Api, npy

EXAMPLES = 5  # of each operation


@pytest.fixture(scope="module")
def document(api: Api) -> dict[str, Any]:
    with api.client() as client:
        read: dict[str, Any] = client.get("/openapi.json").json()
        return read


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def validator(document: dict[str, Any], schema: dict[str, Any]) -> Draft202012Validator:
    """For a schema whose references lead into the document."""
    return Draft202012Validator({**schema, "components": document["components"]})


def test_an_example_of_a_matrix_has_the_id_of_the_examples(quiet: httpx.Client, document: dict[str, Any]) -> None:
    put = document["paths"]["/v1/matrices/{matrix_id}"]["put"]
    (example,) = put["requestBody"]["content"]["application/json"]["examples"].values()
    (name,) = (each for each in put["parameters"] if each["name"] == "matrix_id")
    assert quiet.put(f"/v1/matrices/{name['schema']['examples'][0]}", json=example["value"]).is_success
    products = document["paths"]["/v1/matmul"]["post"]["requestBody"]["content"]["application/json"]["examples"]
    for one in ("stored", "within"):
        reply = quiet.post("/v1/matmul", json=products[one]["value"], headers={"prefer": "respond-async"})
        assert reply.status_code == 202, reply.text


def test_it_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    assert document["servers"]
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    references = set(re.findall(r"'\$ref': '#/components/schemas/(\w+)'", str(document)))
    assert references == set(document["components"]["schemas"]) - {"Nested"}


def test_every_operation_says_what_it_does(document: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in document["tags"]}
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids))
    for method, path, operation in operations(document):
        assert operation["summary"], (method, path)
        assert operation["description"], (method, path)
        assert set(operation["tags"]) <= tags
        assert {"500"} <= operation["responses"].keys()
        for parameter in operation.get("parameters", []):
            assert parameter.get("description"), (method, path, parameter["name"])
        for response in operation["responses"].values():
            assert response["description"]


def test_every_field_is_described(document: dict[str, Any]) -> None:
    bare = [
        f"{name}.{field}"
        for name, schema in document["components"]["schemas"].items()
        for field, piece in schema.get("properties", {}).items()
        if not piece.get("description")
    ]
    assert not bare


def test_names_come_from_the_catalogue(document: dict[str, Any]) -> None:
    options = document["components"]["schemas"]["MatmulOptions"]["properties"]
    assert options["kernel"]["enum"] == ["auto", *KERNEL_NAMES]
    assert options["dtype"]["anyOf"][0]["enum"] == list(DTYPE_NAMES)


@pytest.mark.parametrize(
    ("fields", "is_right"),
    [
        ({"shapes": 64, "kernels": "cpu_blas", "dtypes": "float64"}, True),
        ({"shapes": {"m": 8, "n": 9, "k": 10}, "kernels": {"kernel": "cpu_blas"}}, True),
        ({"shapes": [16, {"start": 16, "stop": 64, "step": 16}], "kernels": ["cpu_blas"], "dtypes": ["int8"]}, True),
        ({"kernels": "all"}, True),
        ({"kernels": "none"}, False),
        ({"kernels": ["none"]}, False),
        ({"shapes": "64"}, False),
        ({"dtypes": "float65"}, False),
    ],
)
def test_one_item_may_stand_for_a_list(
    document: dict[str, Any], quiet: httpx.Client, fields: dict[str, Any], is_right: bool
) -> None:
    """In the document as in the service."""
    schema = document["paths"]["/v1/benchmarks"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    asked = {"preset": "quick", **fields}
    assert validator(document, schema).is_valid(asked) is is_right
    assert quiet.post("/v1/benchmarks?dry_run=true", json=asked).is_success is is_right


def test_every_listed_problem_exists_and_leads_to_its_meaning(document: dict[str, Any], quiet: httpx.Client) -> None:
    listed = set(re.findall(r"- `(\w+)`:", str([operation["responses"] for _, _, operation in operations(document)])))
    assert listed <= BY_TYPE.keys()
    assert {"shape_mismatch", "body_too_large", "no_worker_for_kernel", "idempotency_key_reused"} <= listed
    for name in listed:
        assert quiet.get(f"/problems/{name}").json()["type"] == f"/problems/{name}"
    assert quiet.get("/problems/nope").status_code == 404


def test_examples_are_right(document: dict[str, Any], quiet: httpx.Client) -> None:
    """Each JSON example of a request body is taken by the server, or lacks only what it names."""
    for method, path, operation in operations(document):
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        for example in body.get("examples", {}).values():
            validator(document, body["schema"]).validate(example["value"])
            url = path.format(matrix_id="0" * 64)
            reply = quiet.request(method, url, json=example["value"], headers={"prefer": "respond-async"})
            assert reply.status_code in (200, 201, 202, 404, 409), reply.text


def test_answers_are_as_described(document: dict[str, Any], api: Api, quiet: httpx.Client) -> None:
    """Of everything there is, in JSON."""
    job, failed = submit(quiet), submit(quiet)
    api.succeed(job, PRODUCT)
    fail(api, failed)
    benchmark = done(api, quiet)
    matrix = quiet.post("/v1/matrices", content=npy(PRODUCT), headers={"content-type": "application/x-npy"})
    asked = {
        "/v1/jobs": "/v1/jobs",
        "/v1/jobs/{job_id}": f"/v1/jobs/{job}",
        "/v1/jobs/{job_id}/product": f"/v1/jobs/{job}/product",
        "/v1/matrices/{matrix_id}": matrix.headers["location"],
        "/v1/benchmarks": "/v1/benchmarks",
        "/v1/benchmarks/{job_id}/results": f"/v1/benchmarks/{benchmark}/results",
        "/v1/kernels": "/v1/kernels",
        "/v1/kernels/{name}": "/v1/kernels/shared_tiled",
        "/v1/published": "/v1/published",
        "/v1/published/{name}": "/v1/published/t4_register_tile_2025",
        "/v1/leaderboard": "/v1/leaderboard?dtype=bfloat16",
        "/v1/devices": "/v1/devices",
        "/livez": "/livez",
        "/readyz": "/readyz",
    }
    for template, path in asked.items():
        reply = quiet.get(path, headers={"accept": "application/json"})
        schema = document["paths"][template]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        validator(document, schema).validate(reply.json())


def test_the_manual_is_a_page_without_scripts(document: dict[str, Any], quiet: httpx.Client) -> None:
    page = quiet.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src" not in page.headers["content-security-policy"]
    assert "<script" not in page.text
    assert "://" not in page.text.replace("http-equiv", "")
    for _, path, operation in operations(document):
        assert f'id="{operation["operationId"]}"' in page.text
        assert path in page.text
    targets = set(re.findall(r'href="#([^"]+)"', page.text))
    assert targets <= set(re.findall(r'id="([^"]+)"', page.text))
    assert '<a href="/docs">' in quiet.get("/").text


def test_a_cuda_source_is_shown(quiet: httpx.Client) -> None:
    source = quiet.get("/v1/kernels/naive/source")
    assert source.headers["content-type"].startswith("text/plain")
    assert 'extern "C" __global__' in source.text
    assert quiet.get("/v1/kernels/cublas/source").status_code == 404


def test_kernels_say_who_serves_them(quiet: httpx.Client) -> None:
    served = {kernel["name"]: kernel["served_by"] for kernel in quiet.get("/v1/kernels").json()["kernels"]}
    assert list(served) == list(KERNEL_NAMES)
    assert (served["cpu_blas"], served["naive"]) == (["played"], [])


def test_headers_of_refusals_are_described(document: dict[str, Any], api: Api, quiet: httpx.Client) -> None:
    """What a caller needs to know of them stands at their status."""
    job = submit(quiet)
    api.succeed(job, PRODUCT)
    product = quiet.get(f"/v1/jobs/{job}/product", headers={"range": "bytes=99999-"})
    gzip = {"content-encoding": "gzip", "content-type": "application/json"}
    with ThreadPoolExecutor(1) as pool:
        last = newest(api)
        waiting = pool.submit(quiet.post, "/v1/matmul", json=SEEDED)
        fail(api, newer_than(api, last), "operand_out_of_range")
        failed = waiting.result(60)
    refused = {
        ("/v1/matmul", "post", "Accept-Post"): quiet.post("/v1/matmul", content=b"x"),
        ("/v1/matmul", "post", "Accept-Encoding"): quiet.post("/v1/matmul", content=b"x", headers=gzip),
        ("/v1/matmul", "post", "Location"): failed,
        ("/v1/jobs/{job_id}/product", "get", "Content-Range"): product,
    }
    for (path, method, name), reply in refused.items():
        described = document["paths"][path][method]["responses"][str(reply.status_code)]["headers"]
        assert name in reply.headers and {name, "X-Request-Id"} <= described.keys(), (path, described)
    for _, path, operation in operations(document):
        for status, name in (("401", "WWW-Authenticate"), ("429", "Retry-After"), ("503", "Retry-After")):
            if (refusal := operation["responses"].get(status)) is not None:
                assert name in refusal["headers"], (path, status)


def test_refusals_are_as_described(document: dict[str, Any], quiet: httpx.Client) -> None:
    """Of ids that nothing has, and of media types that nothing is sent as."""
    for method, path, operation in operations(document):
        for accept in ("*/*", "application/nothing"):
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            example = next(iter(body.get("examples", {"": {"value": None}}).values()))["value"]
            url = re.sub(r"{\w+}", "0" * 64, path)
            headers = {"accept": accept, "prefer": "respond-async"}
            reply = quiet.request(method, url, json=example, headers=headers)
            answer = operation["responses"][str(reply.status_code)].get("content", {})
            if reply.content and reply.headers["content-type"].endswith("json"):
                validator(document, answer[reply.headers["content-type"]]["schema"]).validate(reply.json())


def test_requests_made_up_from_it_are_answered_as_it_says(document: dict[str, Any], api: Api) -> None:
    """Right ones and wrong ones; `make fuzz-api` sends many more, and chains of them."""
    asked = {f"{method} {path}" for method, path, _ in operations(document) if not re.search(ENDLESS, path)}
    headers = {"prefer": "respond-async"}
    outcome = made_up(api.url, document, examples=EXAMPLES, phases=("examples", "fuzzing"), headers=headers)
    assert not outcome.failures, outcome.shown
    assert outcome.examples.keys() == asked


def test_an_answer_that_is_not_as_described_would_be_found(document: dict[str, Any], api: Api) -> None:
    operation = copy.deepcopy(document["paths"]["/v1/kernels/{name}"]["get"])
    del operation["responses"]["404"]
    operation["responses"]["200"]["content"]["application/json"]["schema"] = {"type": "array"}
    spoilt = {**document, "paths": {"/v1/kernels/{name}": {"get": operation}}}
    found = made_up(api.url, spoilt, examples=EXAMPLES, phases=("examples", "fuzzing")).shown
    assert "Received: 404" in found and "Response violates schema" in found
