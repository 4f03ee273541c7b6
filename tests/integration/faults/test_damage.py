"""Stored bytes that change before they are read again: the API sends none of them, whatever is asked for."""

from __future__ import annotations

import re

import httpx
import numpy as np
import pytest

from jobs.formats.elements import Array
from jobs.matrices.file_store import MAX_LENT_BYTES
from jobs.matrices.interface import READ_CHUNK_BYTES
from jobs.models import new_id, product_id
from tests.support.stores import StoreBench
from tools.harness.api import JSON, Api, npy

NPY, OCTETS, TENSORS = "application/x-npy", "application/octet-stream", "application/x-safetensors"
PRODUCT = np.arange(60 * 70, dtype=np.float32).reshape(60, 70)
LARGE = np.arange(5 * READ_CHUNK_BYTES // 4, dtype=np.float32).reshape(5, -1)
assert LARGE.nbytes > MAX_LENT_BYTES, "what is sent at once is checked whole before"


def finished(api: Api, client: httpx.Client, product: Array) -> str:
    """A job that has this product; its id."""
    shape = {"random": {"shape": [product.shape[0], 3]}}, {"random": {"shape": [3, product.shape[1]]}}
    body = {"a": shape[0], "b": shape[1], "dtype": "float32"}
    reply = client.post("/v1/matmul", json=body, headers={"prefer": "respond-async"})
    job_id: str = reply.json()["job"]["id"]
    api.succeed(job_id, product)
    return job_id


def assert_damaged(reply: httpx.Response, hint: str) -> None:
    problem = reply.json()
    assert (reply.status_code, problem["type"]) == (500, "/problems/matrix_damaged")
    assert hint in problem["detail"]
    assert "retry-after" not in reply.headers


def damage_count(client: httpx.Client) -> float:
    found = re.search(r"^matmul_damaged_matrices_total (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize("accept", [JSON["content-type"], NPY, OCTETS, TENSORS])
def test_a_damaged_product_is_not_sent(served: tuple[Api, StoreBench], accept: str) -> None:
    api, stores = served
    with api.client(accept=accept) as client:
        job_id = finished(api, client, PRODUCT)
        assert client.get(f"/v1/jobs/{job_id}/product").status_code == 200
        before = damage_count(client)
        stores.flip(4321, product_id(job_id, 1))
        assert_damaged(client.get(f"/v1/jobs/{job_id}/product"), "submit the job again")
        assert damage_count(client) == before + 1


@pytest.mark.parametrize("product", [PRODUCT, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("left", [0, 1, 0.5, 0.99])
def test_a_product_that_is_cut_short_is_an_error_before_any_header(
    served: tuple[Api, StoreBench], product: Array, left: float
) -> None:
    """Never a 200 with the length of the whole: also where what comes first is still there."""
    api, stores = served
    with api.client(accept=OCTETS) as client:
        job_id = finished(api, client, product)
        name = [name for name in stores.kept() if product_id(job_id, 1) in name][-1]
        raw = stores.raw(name)
        stores.replace(name, raw[: int(left if left == 1 else left * len(raw))])
        reply = client.get(f"/v1/jobs/{job_id}/product")
        assert reply.status_code in (410, 500), (reply.status_code, len(reply.content))
        assert "submit the job again" in reply.json()["detail"]


def test_a_damaged_product_is_not_in_the_reply_to_the_one_who_waited(served: tuple[Api, StoreBench]) -> None:
    """The job's key is bound, so the same request is answered with its product."""
    api, stores = served
    key = {"idempotency-key": new_id("key")}
    body = {"a": [[1.0, 2.0]], "b": [[3.0], [4.0]]}
    with api.client() as client:
        reply = client.post("/v1/matmul", json=body, headers={**key, "prefer": "respond-async"})
        job_id = reply.json()["job"]["id"]
        api.succeed(job_id, np.array([[11.0]], np.float32))
        stores.flip(0, product_id(job_id, 1))
        assert_damaged(client.post("/v1/matmul", json=body, headers=key), "submit the job again")


@pytest.mark.parametrize("wanted", ["bytes=4000-4400", "bytes=0-0", "bytes=-1"])
def test_no_range_of_a_damaged_part_is_sent(served: tuple[Api, StoreBench], wanted: str) -> None:
    api, stores = served
    with api.client(accept=OCTETS) as client:
        job_id = finished(api, client, PRODUCT)
        stores.flip(4321, product_id(job_id, 1))
        assert_damaged(client.get(f"/v1/jobs/{job_id}/product", headers={"range": wanted}), "submit the job again")


def test_a_damaged_matrix_is_not_sent_until_it_is_uploaded_again(served: tuple[Api, StoreBench]) -> None:
    api, stores = served
    matrix = np.random.default_rng().standard_normal((40, 50))
    with api.client(accept=NPY) as client:
        headers = {"content-type": NPY, "accept": JSON["content-type"]}
        path = client.post("/v1/matrices", content=npy(matrix), headers=headers).headers["location"]
        last_written = "up_" if stores.kind == "redis" else path.rpartition("/")[2]
        stores.flip(77, last_written)
        assert_damaged(client.get(path), "upload the matrix again")
        assert client.post("/v1/matrices", content=npy(matrix), headers=headers).status_code == 200
        assert client.get(path).content == npy(matrix)


def test_a_large_body_is_cut_off_before_the_damage(served: tuple[Api, StoreBench]) -> None:
    api, stores = served
    with api.client(accept=OCTETS) as client:
        job_id = finished(api, client, LARGE)
        before = damage_count(client)
        stores.flip(2 * READ_CHUNK_BYTES + 5, product_id(job_id, 1))
        received = bytearray()
        with (
            pytest.raises(httpx.RemoteProtocolError, match="closed"),
            client.stream("GET", f"/v1/jobs/{job_id}/product") as reply,
        ):
            assert int(reply.headers["content-length"]) == LARGE.nbytes
            for piece in reply.iter_raw():
                received += piece
        assert bytes(received) == LARGE.tobytes()[: 2 * READ_CHUNK_BYTES]
        assert damage_count(client) == before + 1
        assert_damaged(
            client.get(f"/v1/jobs/{job_id}/product", headers={"range": "bytes=8388608-"}), "submit the job again"
        )


def test_a_damaged_product_has_no_map(served: tuple[Api, StoreBench]) -> None:
    api, stores = served
    with api.client() as client:
        job_id = finished(api, client, PRODUCT)
        page = client.get(f"/ui/jobs/{job_id}")
        assert page.status_code == 200 and "Each cell is the mean" in page.text
        stores.flip(4321, product_id(job_id, 1))
        page = client.get(f"/ui/jobs/{job_id}")
        assert page.status_code == 200 and "Each cell is the mean" not in page.text
