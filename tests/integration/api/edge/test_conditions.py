"""If-Match and If-None-Match, of everything that has an ETag."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from jobs.matrices.interface import content_hasher
from tests.integration.api.test_jobs import PRODUCT, problem, submit
from tools.harness.api import Api, npy

NPY, OCTETS = "application/x-npy", "application/octet-stream"
OTHER = {"if-match": '"other"'}


def put(quiet: httpx.Client, path: str, matrix: Any, **condition: str) -> httpx.Response:
    headers = {"content-type": NPY} | {name.replace("_", "-"): value for name, value in condition.items()}
    return quiet.put(path, content=npy(matrix), headers=headers)


def test_a_product_that_if_match_does_not_name(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    api.succeed(job_id, PRODUCT)
    path = f"/v1/jobs/{job_id}/product"
    whole = quiet.get(path)
    now = {"if-match": whole.headers["etag"]}
    assert quiet.get(path, headers=now).content == whole.content
    assert quiet.get(path, headers=now | {"range": "bytes=0-9"}).status_code == 206
    assert quiet.get(path, headers=now | {"if-none-match": whole.headers["etag"]}).status_code == 304
    for more in ({}, {"range": "bytes=99999-"}, {"accept": "application/json"}, {"if-none-match": "*"}):
        stale = quiet.get(path, headers=OTHER | more)
        assert problem(stale, 412, "precondition_failed")["field"] == "If-Match"
    assert quiet.head(path, headers=OTHER).status_code == 412
    assert quiet.get(path, headers={"if-match": "*", "accept": "application/json"}).status_code == 200


@pytest.mark.parametrize("shape", [PRODUCT.shape, (300, 300)], ids=["in its record", "stored"])
def test_what_has_expired_has_no_version(api: Api, quiet: httpx.Client, shape: tuple[int, int]) -> None:
    asked = {name: {"random": {"shape": list(shape)}} for name in ("a", "b")} | {"transpose_b": True}
    product = np.ones((shape[0], shape[0]), np.float32)
    reply = quiet.post("/v1/matmul", json=asked, headers={"prefer": "respond-async"})
    path = f"{reply.headers['location']}/product"
    api.succeed(reply.json()["job"]["id"], product)
    etag = quiet.head(path).headers["etag"]
    assert quiet.delete(f"/v1/matrices/{etag.strip(chr(34)).partition('.')[0]}").status_code == 204
    for headers in ({}, {"if-none-match": etag}, {"if-match": '"other"'}, {"range": "bytes=99999999-"}):
        problem(quiet.get(path, headers=headers), 410, "product_expired")
    assert quiet.head(path).status_code == 410


def test_another_record_than_if_match_names(api: Api, quiet: httpx.Client) -> None:
    path = f"/v1/jobs/{submit(quiet)}"
    queued = {"if-match": quiet.get(path).headers["etag"]}
    assert quiet.get(path, headers=queued).status_code == 200
    api.ledger.cancel(path.rpartition("/")[2])
    for method in ("GET", "DELETE"):
        problem(quiet.request(method, path, headers=queued | {"prefer": "wait=20"}), 412, "precondition_failed")
    now = {"if-match": quiet.get(path).headers["etag"]}
    assert quiet.delete(path, headers=now).status_code == 204
    problem(quiet.delete(path, headers=now), 404, "job_not_found")


def test_a_matrix_that_is_there_and_one_that_is_not(quiet: httpx.Client) -> None:
    matrix = np.random.default_rng(13).standard_normal((4, 4)).astype(np.float32)
    digest = content_hasher("float32", (4, 4))
    digest.update(matrix.tobytes())
    path = f"/v1/matrices/{digest.hexdigest()}"
    problem(put(quiet, path, matrix, if_match="*"), 412, "precondition_failed")  # there is nothing yet
    assert put(quiet, path, matrix, if_none_match="*").status_code == 201
    again = problem(put(quiet, path, matrix, if_none_match="*"), 412, "precondition_failed")
    assert again["field"] == "If-None-Match"
    etag = quiet.head(path, headers={"accept": OCTETS}).headers["etag"]
    assert put(quiet, path, matrix, if_match=etag).status_code == 200
    for method in ("GET", "HEAD", "DELETE"):
        assert quiet.request(method, path, headers=OTHER).status_code == 412
    assert quiet.get(path, headers={"if-match": etag, "accept": OCTETS}).content == matrix.tobytes()
    assert quiet.delete(path, headers={"if-match": etag}).status_code == 204
    problem(quiet.delete(path, headers={"if-match": etag}), 404, "matrix_not_found")


@pytest.mark.parametrize("path", ["/v1/published", "/v1/leaderboard?size=512", "/ui/static/style.css"])
def test_what_is_shipped(quiet: httpx.Client, path: str) -> None:
    etag = quiet.get(path).headers["etag"]
    assert quiet.get(path, headers={"if-match": etag}).status_code == 200
    assert quiet.get(path, headers={"if-none-match": etag}).status_code == 304
    assert quiet.get(path, headers=OTHER).status_code == 412


@pytest.mark.parametrize("wanted", ["bytes=0-9", "bytes=-1", "bytes=99999999-"])
def test_only_a_get_has_ranges(api: Api, quiet: httpx.Client, wanted: str) -> None:
    """RFC 9110, section 14.2: a HEAD answers with the length of the whole."""
    job_id = submit(quiet)
    api.succeed(job_id, PRODUCT)
    path = f"/v1/jobs/{job_id}/product"
    whole = quiet.get(path).headers
    for conditions in ({}, {"if-range": whole["etag"]}):
        head = quiet.head(path, headers={"range": wanted, **conditions})
        assert (head.status_code, head.headers["content-length"]) == (200, whole["content-length"])
        assert (head.headers["accept-ranges"], "content-range" in head.headers) == ("bytes", False)
    operations = quiet.get("/openapi.json").json()["paths"]["/v1/jobs/{job_id}/product"]
    described = {
        name: {status for status in one["responses"] if status in ("206", "416")} for name, one in operations.items()
    }
    assert described == {"get": {"206", "416"}, "head": set()}
