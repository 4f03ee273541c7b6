"""Small matrices travel in the job's record. A caller sees no difference, but for where a record says that they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from jobs.errors import JobNotFound
from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from tests.integration.api.test_jobs import problem
from tools.harness.api import Api, from_npy, running_api

PRODUCT = np.arange(6, dtype=np.float32).reshape(3, 2)
OPERANDS = {"a": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "b": [[1.0, 0.0], [0.0, 1.0]]}
BOUND_BYTES = 400


@pytest.fixture
def api(valkey: EmbeddedServer, tmp_path: Path) -> Iterator[Api]:
    settings: dict[str, Any] = {"record_matrix_bytes": 1024, "store_bytes": BOUND_BYTES, "product_ttl_s": 60}
    with running_api(valkey, f"{new_id('test')}:", tmp_path, **settings) as api:
        yield api


@pytest.fixture
def client(api: Api) -> Iterator[httpx.Client]:
    with api.client(prefer="respond-async") as client:
        yield client


def submit(client: httpx.Client, **fields: Any) -> str:
    reply = client.post("/v1/matmul", json={**OPERANDS, **fields})
    assert reply.status_code == 202, reply.text
    return str(reply.json()["job"]["id"])


def matrix_of(job_id: str) -> str:
    return f"/v1/matrices/{job_id.replace('job_', 'c_')}_1"


def test_nothing_is_stored(api: Api, client: httpx.Client) -> None:
    job_id = submit(client)
    record = client.get(f"/v1/jobs/{job_id}").json()
    assert [record["request"][name]["source"] for name in "ab"] == ["inline", "inline"]
    assert [record["request"][name]["matrix"] for name in "ab"] == [None, None]
    claimed = api.ledger.claim(job_id, 1, worker="played", lease_s=60)
    assert claimed is not None and claimed.a is not None and claimed.b is not None
    assert claimed.a.elements("float32", (3, 2)).tolist() == OPERANDS["a"]
    assert claimed.b.elements("float32", (2, 2)).tolist() == OPERANDS["b"]
    assert not [path for path in api.settings.store_dir.rglob("*") if path.is_file() and path.stat().st_size]


def test_the_product_in_every_form_and_in_parts(api: Api, client: httpx.Client) -> None:
    job_id = submit(client)
    api.succeed(job_id, PRODUCT)
    path = f"/v1/jobs/{job_id}/product"
    whole = client.get(path)
    np.testing.assert_array_equal(from_npy(whole.content), PRODUCT)
    assert client.get(path, headers={"range": "bytes=130-140"}).content == whole.content[130:141]
    assert client.get(path, headers={"if-none-match": whole.headers["etag"]}).status_code == 304
    assert client.get(path, headers={"accept": "application/octet-stream"}).content == PRODUCT.tobytes()
    assert client.get(path, headers={"accept": "application/json"}).json()["c"] == PRODUCT.tolist()


def test_the_page_of_the_job_draws_it(api: Api, client: httpx.Client) -> None:
    job_id = submit(client)
    api.succeed(job_id, PRODUCT)
    assert "row 1, column 0: 2" in client.get(f"/ui/jobs/{job_id}").text
    client.delete(matrix_of(job_id))
    assert "Heat map" not in client.get(f"/ui/jobs/{job_id}").text


def test_the_product_is_a_matrix_and_an_operand(api: Api, client: httpx.Client) -> None:
    job_id = submit(client)
    api.succeed(job_id, PRODUCT)
    path = matrix_of(job_id)
    about = client.get(path, headers={"accept": "application/json"}).json()
    assert (about["dtype"], about["shape"], about["bytes"]) == ("float32", [3, 2], 24)
    np.testing.assert_array_equal(from_npy(client.get(path).content), PRODUCT)
    second = submit(client, a={"matrix": path.rpartition("/")[2]}, b={"random": {"shape": [2, 2]}})
    claimed = api.ledger.claim(second, 1, worker="played", lease_s=60)
    assert claimed is not None and claimed.a is not None
    np.testing.assert_array_equal(claimed.a.elements("float32", (3, 2)), PRODUCT)
    assert client.delete(path).status_code == 204
    for gone in (client.get(path), client.delete(path), client.get(matrix_of("job_" + "0" * 32))):
        problem(gone, 404, "matrix_not_found")
    problem(client.get(f"/v1/jobs/{job_id}/product"), 410, "product_expired")


def test_it_is_charged_while_it_is_kept(api: Api, client: httpx.Client) -> None:
    before = api.stored_bytes()
    job_id = submit(client)
    assert api.stored_bytes() == before + (24 + 8) + (16 + 8) + (24 + 8)  # each with its digest
    api.succeed(job_id, PRODUCT)
    assert api.stored_bytes() == before + 24 + 8
    assert client.delete(f"/v1/jobs/{job_id}").status_code == 204
    assert api.stored_bytes() == before


def test_past_the_bound_it_is_refused(api: Api, client: httpx.Client) -> None:
    for _ in range(4):
        submit(client)
    reply = client.post("/v1/matmul", json=OPERANDS)
    assert "88 more bytes: 352 of 400 are used" in problem(reply, 503, "store_full")["detail"]


@pytest.mark.parametrize("media_type", ["application/x-npy", "application/json"])
def test_a_damaged_product_is_not_sent(api: Api, client: httpx.Client, media_type: str) -> None:
    job_id = submit(client)
    api.succeed(job_id, PRODUCT)
    key = f"{api.settings.key_prefix}job:{job_id}:matrices"
    redis: Any = api.ledger._client
    damaged = bytearray(redis.hget(key, "c"))
    damaged[5] ^= 64
    redis.hset(key, "c", bytes(damaged))
    reply = client.get(f"/v1/jobs/{job_id}/product", headers={"accept": media_type})
    assert reply.status_code == 500 and "no longer those of the product" in reply.json()["detail"]


def test_a_retry_finds_its_operands_until_their_time_is_up(api: Api, client: httpx.Client) -> None:
    job_id = submit(client)
    client.post(f"/v1/jobs/{job_id}/cancel")
    assert client.post(f"/v1/jobs/{job_id}/retry").status_code == 202
    claimed = api.ledger.claim(job_id, 2, worker="played", lease_s=60)
    assert claimed is not None and claimed.a is not None
    client.post(f"/v1/jobs/{job_id}/cancel")
    redis: Any = api.ledger._client
    redis.zadd(f"{api.settings.key_prefix}packed", {job_id: 1})
    assert api.ledger.expire_matrices() == 1
    assert problem(client.post(f"/v1/jobs/{job_id}/retry"), 409, "operand_missing")["field"] == "a"


def test_another_owner_sees_none_of_it(api: Api, client: httpx.Client) -> None:
    job_id = submit(client)
    api.succeed(job_id, PRODUCT)
    with pytest.raises(JobNotFound):
        api.ledger.get(job_id, owner="another", with_product=True)
    assert not api.ledger.drop_product(job_id, 1, owner="another")
    assert client.get(matrix_of(job_id)).status_code == 200
