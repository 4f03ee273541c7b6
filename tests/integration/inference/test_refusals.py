"""Wrong requests under /v2: each is refused with a sentence in `error`, and never by a 5xx."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pytest

from service.bodies.sizes import in_units
from tests.integration.api.test_keys import OTHER, Guarded, bearer, guarded
from tools.harness.api import Api

__all__ = ["guarded"]  # a fixture

INFER = "/v2/models/matmul/infer"
LENGTH = "inference-header-content-length"
ONE: dict[str, Any] = {"shape": [1, 1], "datatype": "FP32", "data": [1.0]}
RAW: dict[str, Any] = {"shape": [1, 1], "datatype": "FP32", "parameters": {"binary_data_size": 4}}
HUGE = [2**31, 2**31]


def document(a: dict[str, Any] = ONE, b: dict[str, Any] = ONE, **more: Any) -> dict[str, Any]:
    return {"inputs": [{"name": "A"} | a, {"name": "B"} | b], **more}


def asked(**parameters: Any) -> dict[str, Any]:
    return document(parameters=parameters)


def sentence_of(reply: httpx.Response) -> str:
    """What is wrong, as a client of either kind is told."""
    assert 400 <= reply.status_code < 500, reply.text
    problem = reply.json()
    assert reply.headers["content-type"] == "application/problem+json"
    assert problem["error"] == problem["detail"] and problem["error"].endswith(".")
    return str(problem["error"])


WRONG: list[tuple[Any, str]] = [
    ({}, "inputs is missing"),
    ([1], "must be a JSON object"),
    ({"inputs": 7}, "inputs: "),
    ({"inputs": [7]}, "inputs.0"),
    ({"inputs": []}, "A is missing"),
    (document(surprise=1), "no field surprise"),
    (document(id=7), "id: "),
    (document(id="x" * 2000), "id: "),
    (document() | {"inputs": [{"name": "A"} | ONE] * 2}, "A comes twice"),
    ({"inputs": [{"name": "X"} | ONE]}, "inputs.0.name must be 'A', 'B' or 'C'"),
    (document(ONE | {"shape": [-1, 1]}), "A: The sizes in a shape must not be negative"),
    (document(ONE | {"shape": [1]}), "2 axes"),
    (document(ONE | {"shape": [1, 1, 1, 1]}), "2 axes"),
    (document(ONE | {"shape": [True, 1]}), "inputs.0.shape.0"),
    (document(ONE | {"shape": [1.5, 1]}), "inputs.0.shape.0"),
    (document(ONE | {"shape": HUGE}), "larger than any memory"),
    (document(ONE | {"shape": [2**62, 2**62]}), "larger than any memory"),
    (document(ONE | {"shape": [10**30, 1]}), "inputs.0.shape.0"),
    (document(ONE | {"shape": [2, 2]}), "has 1 elements, but its shape makes 4"),
    (document(ONE | {"data": [[1.0, 2.0]]}), "has the shape 1×1, but its data are 1×2"),
    (document(ONE | {"data": [[[[[1.0]]]]]}), "A is too deep"),
    (document(ONE | {"data": ["x"]}), "a JSON number belongs there"),
    (document(ONE | {"data": [True]}), "a JSON number belongs there"),
    (document(ONE | {"data": [1e300]}), "too large for float32"),
    (document(ONE | {"data": {}}), "must be a list"),
    (document(ONE | {"data": None}), "needs one of data and"),
    (document(ONE | {"datatype": "INT8"}, ONE | {"datatype": "INT8", "data": [300]}), "int8 holds -128 to 127"),
    (document(ONE | {"datatype": "FP8"}), "datatype 'FP8'"),
    (document(ONE | {"datatype": "UINT8"}), "float8_e4m3 as UINT8"),
    (document(ONE | {"datatype": 7}), "inputs.0.datatype"),
    (document(ONE | {"parameters": {"binary_data_size": 4}}), "needs one of data and"),
    (document(RAW), "does not say where the JSON ends"),
    (document(outputs=[{"name": "D"}]), "outputs.0.name"),
    (document(outputs=[{"name": "C"}] * 2), "name it once"),
    (document(outputs=[{"name": "C", "parameters": {"classification": 3}}]), "no classes"),
    (asked(kernel="none"), "parameters.kernel"),
    (asked(config={"block_m": 8}), "A config belongs to one kernel"),
    (asked(timeout="NaN"), "parameters.timeout"),
    (asked(timeout=float("nan")), "parameters.timeout"),
    (asked(timeout=-1), "parameters.timeout"),
    (asked(timeout=2**63), "parameters.timeout"),
    (asked(priority=-1), "parameters.priority"),
    (asked(priority=1.5), "parameters.priority"),
    (asked(alpha="NaN"), "parameters.alpha"),
    (asked(beta=1.0), "beta is given without c"),
    (asked(surprise=1), "no field parameters.surprise"),
    (asked(sequence_id=1), "Sequences are not offered"),
    (document(parameters=[1]), "parameters: "),
    (document(ONE, ONE | {"shape": [2, 1], "data": [1, 2]}), "a's columns must equal b's rows"),
]


@pytest.mark.parametrize(("body", "words"), WRONG)
def test_json_that_says_something_wrong(quiet: httpx.Client, body: Any, words: str) -> None:
    assert words in sentence_of(quiet.post(INFER, content=json.dumps(body)))


BODIES: list[tuple[bytes, str]] = [
    (b"", "The body is empty"),
    (b"{", "is not JSON"),
    (b"\xff\xfe", "is not JSON"),
    (b"[" * 100_000, "is not JSON"),
    (b'{"inputs":' + b"[" * 50_000 + b"]" * 50_000 + b"}", "is not JSON"),
    (b'{"id": "\\ud800", "inputs": []}', "."),
    (b'{"inputs": [' + b'{"name":"A"},' * 3000 + b"{}]}", "inputs.0.shape is missing"),
]


@pytest.mark.parametrize(("body", "words"), BODIES, ids=range(len(BODIES)))
def test_bodies_that_are_no_request(quiet: httpx.Client, body: bytes, words: str) -> None:
    assert words in sentence_of(quiet.post(INFER, content=body))


def framed(tensors: dict[str, Any], raw: bytes) -> tuple[bytes, int]:
    head = json.dumps(tensors).encode()
    return head + raw, len(head)


@pytest.mark.parametrize(
    ("tensors", "raw", "words"),
    [
        (document(RAW, RAW), b"1234", "speaks of 8 bytes of elements, but 4 follow"),
        (document(RAW, RAW), b"123456789", "speaks of 8 bytes of elements, but 9 follow"),
        (document(RAW, ONE), b"", "speaks of 4 bytes"),
        (
            document(RAW | {"shape": [1, 2]}, RAW),
            b"12345678",
            "A has 4 bytes, but its shape and datatype make 8",
        ),
        (document(RAW | {"shape": HUGE}, RAW), b"12345678", "larger than any memory"),
        (document({**RAW, "shape": HUGE, "parameters": {"binary_data_size": 2**64}}, RAW), b"", "binary_data_size"),
        (document({**RAW, "shape": [2**20, 2**20], "parameters": {"binary_data_size": 2**42}}, RAW), b"", "follow it"),
        (document({**RAW, "parameters": {"binary_data_size": -4}}, RAW), b"1234", "binary_data_size"),
        (document({**RAW, "data": [1.0]}, RAW), b"12345678", "needs one of data and"),
    ],
)
def test_raw_tensors_that_do_not_fit(quiet: httpx.Client, tensors: Any, raw: bytes, words: str) -> None:
    body, length = framed(tensors, raw)
    assert words in sentence_of(quiet.post(INFER, content=body, headers={LENGTH: str(length)}))
    in_chunks = quiet.post(INFER, content=iter([body[:9], body[9:]]), headers={LENGTH: str(length)})
    assert sentence_of(in_chunks)


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "99999999999999999999", "1048577", "100000", "0", "3"])
def test_lengths_that_are_none(quiet: httpx.Client, length: str) -> None:
    body, _ = framed(document(RAW, RAW), b"12345678")
    assert sentence_of(quiet.post(INFER, content=body, headers={LENGTH: length}))


def test_bombs(quiet: httpx.Client, api: Api) -> None:
    bomb = gzip.compress(bytes(api.settings.max_json_bytes + 1))
    reply = quiet.post(INFER, content=bomb, headers={"content-encoding": "gzip"})
    assert reply.status_code == 413 and in_units(api.settings.max_json_bytes) in sentence_of(reply)
    for headers in ({"content-encoding": "deflate"}, {"content-encoding": "br"}, {"content-encoding": "gzip,gzip"}):
        assert sentence_of(quiet.post(INFER, content=bomb, headers=headers))
    other = quiet.post(INFER, content=bomb, headers={"content-encoding": "br"})
    assert sentence_of(other).endswith("send it without Content-Encoding or gzip or deflate.")
    large = json.dumps(document()).encode() + bytes(api.settings.max_json_bytes)
    assert quiet.post(INFER, content=large).status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/nothing", 404),
        ("GET", "/v2/models/none", 404),
        ("GET", "/v2/models/matmul/versions/7", 404),
        ("GET", "/v2/models/" + "x" * 300 + "/stats", 404),
        ("GET", INFER, 405),
        ("PUT", "/v2/models/matmul", 405),
        ("POST", "/v2/repository/models/matmul/load", 400),
        ("POST", "/v2/cudasharedmemory/region/x/register", 400),
        ("GET", "/v2/logging", 400),
    ],
)
def test_paths_that_lead_nowhere(quiet: httpx.Client, method: str, path: str, status: int) -> None:
    reply = quiet.request(method, path)
    assert reply.status_code == status and sentence_of(reply)


def test_walls_hold_here_too(guarded: Guarded) -> None:
    with guarded.api.client() as nobody:
        assert nobody.get("/v2/health/live").status_code == nobody.get("/v2/health/ready").status_code == 200
        for method, path in (("GET", "/v2"), ("GET", "/v2/models/matmul"), ("POST", INFER)):
            reply = nobody.request(method, path)
            assert reply.status_code == 401 and sentence_of(reply)
    with guarded.api.client(**bearer(OTHER.key)) as other:
        assert other.get("/v2").status_code == 200
        assert "No worker" not in sentence_of(other.post(INFER, json={}))


def test_a_product_too_large_for_json_is_refused_before_it_is_made(quiet: httpx.Client) -> None:
    column = {"shape": [1100, 1], "datatype": "INT8", "data": [1] * 1100}
    row = {"shape": [1, 1100], "datatype": "INT8", "data": [1] * 1100}
    assert "so ask for binary_data" in sentence_of(quiet.post(INFER, json=document(column, row)))
