"""What a caller meets at the edge: headers in several lines, fields that are named, refusals that say what to do."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from safetensors.numpy import save

from jobs.ledger.interface import JobFilter
from service.routes import matmul
from tests.integration.api.test_jobs import ASYNC, PRODUCT, SEEDED, problem, submit
from tools.harness.api import Api, npy

ONE = np.ones((2, 3), np.float32)
SAFETENSORS = "application/x-safetensors"


def test_prefer_in_two_lines_is_one(quiet: httpx.Client) -> None:
    lines = [("content-type", "application/json"), ("prefer", "respond-async"), ("prefer", "wait=0")]
    reply = quiet.post("/v1/matmul", content=json.dumps(SEEDED), headers=lines)
    assert (reply.status_code, reply.headers["preference-applied"]) == (202, "respond-async, wait=0")


def test_accept_and_if_none_match_in_two_lines_are_one(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    api.succeed(job_id, PRODUCT)
    lines = [("accept", "text/html"), ("accept", "application/octet-stream")]
    reply = quiet.get(f"/v1/jobs/{job_id}/product", headers=lines)
    assert reply.headers["content-type"] == "application/octet-stream"
    lines += [("if-none-match", '"other"'), ("if-none-match", reply.headers["etag"])]
    assert quiet.get(f"/v1/jobs/{job_id}/product", headers=lines).status_code == 304
    shown = quiet.get(f"/v1/jobs/{job_id}/product", headers={"accept": "application/json"})
    assert (shown.json()["c"], shown.headers["vary"]) == (PRODUCT.tolist(), "accept")


def answer(quiet: httpx.Client, head: bytes, body: bytes = b"") -> bytes:
    """The answer to a head that no client sends, and a body."""
    place = urlsplit(str(quiet.base_url))
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        connection.sendall(head + b"\r\n\r\n" + body)
        return connection.makefile("rb").read()


@pytest.mark.parametrize(
    ("head", "status", "words"),
    [
        (b"GET /livez HTTP/1.1\r\nConnection: close", 400, b"Host is missing"),
        (b"GET /livez HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\nHost: localhost", 400, b"Host comes twice"),
        (b"GET /livez HTTP/1.0", 200, b"ok"),  # as load balancers ask
        (b"GET /livez HTTP/1.0\r\nHost: other.example", 403, b"does not answer to that Host"),
        (b"GET /livez HTTP/1.0\r\nOrigin: http://localhost", 403, b"from that Origin"),
    ],
)
def test_a_host_is_named_once(quiet: httpx.Client, head: bytes, status: int, words: bytes) -> None:
    reply = answer(quiet, head)
    assert reply.startswith(b"HTTP/1.1 %d " % status) and words in reply


@pytest.mark.parametrize("blanks", [b" ", b"\t", b" \t "])
def test_blanks_behind_a_value_are_no_part_of_it(quiet: httpx.Client, blanks: bytes) -> None:
    """RFC 9110, section 5.5. A key with a blank behind it is the same key, and a length the same length."""
    body = json.dumps(SEEDED).encode()
    head = [
        b"POST /v1/matmul HTTP/1.1",
        b"Host: localhost" + blanks,
        b"Content-Type: application/json" + blanks,
        b"Content-Length: %d" % len(body) + blanks,
        b"Expect: 100-continue" + blanks,
        b"Prefer: respond-async" + blanks,
        b"X-Request-Id: blank" + blanks,
        b"Idempotency-Key: blanks-%s" % blanks.hex().encode(),
        b"Connection: close",
    ]
    plain = answer(quiet, b"\r\n".join(head), body)
    head[-2] += blanks
    again = answer(quiet, b"\r\n".join(head), body)
    for reply in (plain, again):
        assert (
            reply.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 ") and b"\r\nx-request-id: blank\r\n" in reply
        )
    assert b"\r\nidempotent-replayed: true\r\n" in again


@pytest.mark.parametrize("more", [b"", b"\r\nUpgrade: other\r\nConnection: Upgrade, close"])
def test_trailers_are_no_headers(quiet: httpx.Client, more: bytes) -> None:
    """They come when the request may have been admitted, or not."""
    head = b"POST /v1/matmul HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close"
    head += b"\r\nPrefer: respond-async\r\nTransfer-Encoding: chunked" + more
    body = json.dumps(SEEDED).encode()
    trailers = b"Host: other.example\r\nIdempotency-Key: \r\nX-Request-Id: trailing\r\nContent-Encoding: gzip"
    reply = answer(quiet, head, b"%x\r\n%s\r\n0\r\n%s\r\n\r\n" % (len(body), body, trailers))
    assert reply.startswith(b"HTTP/1.1 202 ") and b"trailing" not in reply
    reply = answer(quiet, head, b"%x\r\n%s\r\n0\r\nX: %s\r\n\r\n" % (len(body), body, b"x" * (64 << 10)))
    assert reply.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("path", "name", "values"),
    [
        ("/v1/matmul", "Idempotency-Key", ("one", "two")),
        ("/v1/matmul", "Content-Type", ("application/json", "text/plain")),
        ("/v1/benchmarks", "Content-Type", ("application/json", "text/plain")),
        ("/v1/matrices", "X-Matmul-Shape", ("2,3", "3,2")),
        ("/v2/models/matmul/infer", "Inference-Header-Content-Length", ("2", "3")),
    ],
)
def test_a_header_with_two_values_is_refused(
    quiet: httpx.Client, path: str, name: str, values: tuple[str, str]
) -> None:
    """Those that are lists are taken together; of others a proxy may have gone by either."""
    octets = [("Content-Type", "application/octet-stream"), ("X-Matmul-Dtype", "float32")]
    lines = [*(octets if name.startswith("X-") else []), *((name, value) for value in values)]
    document = problem(quiet.post(path, content=b"{}", headers=lines), 400, "invalid_header")
    assert document["field"] == name and "values that differ" in document["detail"]


def test_a_202_after_a_wait_tells_of_the_job_as_it_is(
    api: Api, quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as it was when it was submitted."""

    async def claimed_meanwhile(*_arguments: object) -> None:
        (newest,) = api.ledger.list(JobFilter(), limit=1).jobs
        api.claim(newest.id)

    monkeypatch.setattr(matmul, "first_reply", claimed_meanwhile)
    reply = quiet.post("/v1/matmul", json=SEEDED, headers={"prefer": "wait=1"})
    assert (reply.status_code, reply.json()["job"]["state"]) == (202, "running")
    assert reply.json()["job"]["queue_position"] is None


def test_what_is_not_there_is_named(quiet: httpx.Client) -> None:
    assert problem(quiet.get("/v1/jobs/job_0"), 404, "job_not_found")["field"] == "job_id"
    assert problem(quiet.get("/v1/matrices/0"), 404, "matrix_not_found")["field"] == "matrix_id"
    headers = {"content-type": "application/x-npy"}
    other = quiet.put(f"/v1/matrices/{'0' * 64}", content=npy(ONE), headers=headers)
    assert problem(other, 409, "digest_mismatch")["field"] == "matrix_id"
    keyed = {"idempotency-key": "named", "prefer": "respond-async"}
    assert quiet.post("/v1/matmul", json=SEEDED, headers=keyed).status_code == 202
    reused = quiet.post("/v1/matmul", json=SEEDED | {"alpha": 2}, headers=keyed)
    assert problem(reused, 422, "idempotency_key_reused")["field"] == "Idempotency-Key"


@pytest.mark.parametrize("path", ["/v1/matmul?dryrun=true", "/v1/matmul?dry_run=true&wait=1", "/v1/benchmarks?dry=1"])
def test_a_query_that_is_not_known_is_refused(quiet: httpx.Client, path: str) -> None:
    name = path.rpartition("?")[2].rpartition("&")[2].partition("=")[0]
    document = problem(quiet.post(path, json=SEEDED, headers=ASYNC), 422, "invalid_request")
    assert document["field"] == name
    assert document["detail"].startswith(f"There is no query parameter {name}")
    assert "; this path takes dry_run, and all else is sent in the body." in document["detail"]


@pytest.mark.parametrize(
    ("query", "field", "end"),
    [
        ("jobs/job_0/product?format=json", "format", "this path takes none."),
        ("kernels/naive/assembly?fom=ptx", "fom", "this path takes form."),
        ("jobs?state=queued&state=failed", "state", "comes more than once; send it once."),
        ("published/h200_quick/report?title=a&title=b", "title", "send it once."),
        (f"jobs?{'x' * 99}=1", f"'{'x' * 40}'", "limit, cursor."),
        ("jobs?limit=1_0", "limit", "limit: a whole number belongs here."),
        ("jobs?limit=1.0", "limit", "limit: a whole number belongs here."),
        ("jobs?limit=-1", "limit", "greater than or equal to 1."),
        ("jobs?%00=", r"'\x00'", "limit, cursor."),
        (f"published/h200_quick/report?{'sections=summary&' * 14}", "sections", "sections may come at most 13 times."),
    ],
)
def test_no_query_is_passed_over(quiet: httpx.Client, query: str, field: str, end: str) -> None:
    document = problem(quiet.get(f"/v1/{query}"), 422, "invalid_request")
    assert document["field"] == field and document["detail"].endswith(end)


def test_queries_that_may_come(quiet: httpx.Client) -> None:
    assert quiet.get("/v1/published/h200_quick/report?format=markdown&sections=summary&sections=method").is_success
    octets = {"content-type": "application/octet-stream"}
    assert quiet.post("/v1/matrices?dtype=float32&shape=1,1", content=bytes(4), headers=octets).is_success
    assert all(quiet.get(f"/{path}?verbose").is_success for path in ("livez", "v2/health/live", "metrics"))


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"gzip\r\nTransfer-Encoding: chunked"])
def test_a_body_that_is_compressed_on_its_way_is_refused(quiet: httpx.Client, coding: bytes) -> None:
    lines = b"Host: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nTransfer-Encoding: " + coding
    reply = answer(quiet, b"POST /v1/matmul HTTP/1.1\r\n" + lines + b"\r\n\r\n2\r\n{}\r\n0")
    assert reply.startswith(b"HTTP/1.1 400 ") and b'"field":"Transfer-Encoding"' in reply


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/matmul", "nothing at this path, but there is at /v1/matmul;"),
        ("/v1/matmul/", "nothing at this path, but there is at /v1/matmul;"),
        ("/jobs/job_1/cancel/", "nothing at this path, but there is at /v1/jobs/job_1/cancel;"),
        ("/v3/matmul", "nothing at this path; /docs lists"),
    ],
)
def test_a_path_that_is_nearly_right_is_told(quiet: httpx.Client, path: str, words: str) -> None:
    assert words in problem(quiet.post(path, json=SEEDED), 404, "not_found")["detail"]


def test_an_option_that_is_sent_as_a_part_is_told_where_it_goes(quiet: httpx.Client) -> None:
    document = problem(quiet.post("/v1/matmul", files={"kernel": (None, "cpu_blas")}), 422, "invalid_request")
    assert document["field"] == "kernel" and 'options={"kernel": …}' in document["detail"]


@pytest.mark.parametrize(
    ("body", "kind", "sentence"),
    [
        ({"bias": []}, "shape_mismatch", "bias is 1×0 but the product is 3×2: bias must be 1×2, to be added"),
        ({"bias": 1}, "invalid_request", 'bias must be a list of rows of numbers, {"matrix": "<id>"} or {"random"'),
        ({"c": 1}, "invalid_request", 'c must be a list of rows of numbers, {"matrix": "<id>"}, {"job": "<id>"} or'),
    ],
)
def test_what_an_operand_may_be(quiet: httpx.Client, body: dict[str, Any], kind: str, sentence: str) -> None:
    document = problem(quiet.post("/v1/matmul", json=SEEDED | body), 422, kind)
    assert document["detail"].startswith(sentence) and document["field"] in body


def test_a_benchmarks_sentences(quiet: httpx.Client) -> None:
    many = quiet.post("/v1/benchmarks", json={"preset": "quick", "tags": ["x"] * 21})
    assert problem(many, 422, "invalid_request")["detail"] == "tags may have at most 20 of them, not 21."
    odd = quiet.post("/v1/benchmarks", json={"preset": "quick", "device": "\n"})
    assert problem(odd, 409, "no_worker_for_device")["detail"].startswith(r"No live worker runs on '\n'; there are: ")


def test_refusals_say_what_to_do(quiet: httpx.Client) -> None:
    said = problem(quiet.put("/v1/matmul", json=SEEDED), 405, "method_not_allowed")["detail"]
    assert said == "This path does not answer PUT; it answers POST."
    said = problem(quiet.get("/v1/jobs?kernel=nope"), 422, "invalid_request")["detail"]
    assert said.startswith("kernel: there is no kernel 'nope'; GET /v1/kernels lists")
    job = f"/v1/jobs/{submit(quiet)}"
    said = problem(quiet.get(f"{job}/product"), 409, "wrong_state")["detail"]
    assert said == "The job is queued, so it has no product yet; ask again when it has succeeded."
    assert problem(quiet.delete(job), 409, "wrong_state")["detail"].endswith("cancel it first, or wait for its end.")
    assert problem(quiet.post(f"{job}/retry"), 409, "wrong_state")["detail"].endswith("failed or was cancelled can.")


def test_a_refusal_that_is_a_page_has_its_headers(quiet: httpx.Client) -> None:
    reply = quiet.put("/")
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD")
    assert reply.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [
        ([[1.0, 2.0]], [[1.0, 2.0]], "shape_mismatch"),
        ([[[1.0]]] * 2, [[[1.0]]] * 3, "shape_mismatch"),
        ({"random": {"shape": [2, 3], "dtype": "float64"}}, {"random": {"shape": [3, 2]}}, "unsupported_dtype"),
    ],
)
def test_operands_that_do_not_fit_name_one(quiet: httpx.Client, a: Any, b: Any, kind: str) -> None:
    assert problem(quiet.post("/v1/matmul", json={"a": a, "b": b}, headers=ASYNC), 422, kind)["field"] == "b"


@pytest.mark.parametrize(
    ("parts", "status", "kind", "field", "words"),
    [
        ({"d": npy(ONE)}, 422, "invalid_request", "d", "the parts are a, b, c, bias, scale_a, scale_b and options"),
        ({"options": b"{"}, 400, "malformed_body", "options", "The part options is not JSON"),
        ({"options": b"[]"}, 422, "invalid_request", "options", "The part options must be a JSON object"),
        ({"options": b'{"c": [[1]]}'}, 422, "invalid_request", "c", "c must be a part c as .npy or, in options, {"),
    ],
)
def test_a_part_that_is_wrong_is_named(
    quiet: httpx.Client, parts: dict[str, bytes], status: int, kind: str, field: str, words: str
) -> None:
    files = {name: (None, each) for name, each in ({"a": npy(ONE), "b": npy(ONE.T)} | parts).items()}
    document = problem(quiet.post("/v1/matmul", files=files, headers=ASYNC), status, kind)
    assert document["field"] == field and words in document["detail"]


def test_a_tensor_that_is_wrong_is_named(quiet: httpx.Client) -> None:
    sent = {"content-type": SAFETENSORS} | ASYNC
    wrong = {"b": save({"a": ONE}), "a": save({"a": ONE.astype(np.int64), "b": ONE})}
    for field, body in wrong.items():
        reply = quiet.post("/v1/matmul", content=body, headers=sent)
        assert (reply.status_code, reply.json()["field"]) == (422, field)
    reply = quiet.post("/v1/matmul", content=save({"a": ONE, "b": ONE}, {"options": "["}), headers=sent)
    assert "options in the metadata is not JSON" in problem(reply, 400, "malformed_body")["detail"]


@pytest.mark.parametrize(
    ("path", "body", "field", "words"),
    [
        ("/v1/matrices", {"random": {"shape": [3]}}, "random.shape", "has 2 axes"),
        ("/v1/matrices", {"random": {"shape": [3, 4], "dtype": "int8"}}, "random.distribution", "ask for integers"),
        ("/v1/uploads", {"dtype": "float32", "shape": [3]}, "shape", "has 2 axes"),
        ("/v1/benchmarks", {"shapes": [64], "kernels": []}, "kernels", "kernels must have at least 1 of them, not 0"),
    ],
)
def test_a_field_inside_is_named(quiet: httpx.Client, path: str, body: Any, field: str, words: str) -> None:
    reply = quiet.post(path, json=body)
    assert (reply.status_code, reply.json()["field"]) == (422, field) and words in reply.json()["detail"]
