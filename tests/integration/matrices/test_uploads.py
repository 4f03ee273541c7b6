"""Large matrices that go to the object store and come from it, past the API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import numpy as np
import pytest

from jobs.errors import MatrixNotFound, StoreUnavailable
from jobs.matrices.interface import content_hasher
from jobs.matrices.s3_store.staged import complete_upload, give_up
from jobs.matrices.s3_store.store import ObjectMatrixStore
from jobs.models import ANONYMOUS, new_id
from jobs.redis.embedded import EmbeddedServer
from tests.integration.api.test_jobs import problem
from tests.support.objects import SECRET, ObjectServer
from tools.harness.api import Api, npy, running_api

MATRIX = np.random.default_rng(3).standard_normal((300, 200)).astype(np.float32)


@pytest.fixture(scope="module")
def api(valkey: EmbeddedServer, objects: ObjectServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    prefix = f"{new_id('api')}:"
    with running_api(valkey, prefix, tmp_path_factory.mktemp("api"), **objects.settings(prefix)) as running:
        yield running


def fresh() -> Any:
    return np.random.default_rng().standard_normal((300, 200)).astype(np.float32)


def opened(quiet: httpx.Client, matrix: Any, **headers: str) -> dict[str, Any]:
    hasher = content_hasher("float32", matrix.shape)
    hasher.update(matrix.tobytes())
    asked = {"id": hasher.hexdigest(), "dtype": "float32", "shape": list(matrix.shape)}
    reply = quiet.post("/v1/uploads", json=asked, headers=headers)
    assert reply.status_code == 201 and reply.headers["cache-control"] == "no-store", reply.text
    return {**reply.json(), "id": asked["id"], "replayed": "idempotent-replayed" in reply.headers}


def completed(quiet: httpx.Client, upload: dict[str, Any]) -> httpx.Response:
    return quiet.post(f"/v1/uploads/{upload['upload']}/complete")


def test_a_matrix_goes_and_comes_past_the_api(api: Api, quiet: httpx.Client) -> None:
    matrix = fresh()
    upload = opened(quiet, matrix)
    assert upload["bytes"] == matrix.nbytes and SECRET not in upload["url"]
    assert parse_qs(urlsplit(upload["url"]).query)["X-Amz-Expires"] == [str(api.settings.s3_url_ttl_s)]
    problem(completed(quiet, upload), 409, "upload_not_sent")
    here = f"/v1/uploads/{upload['upload']}"
    problem(quiet.put(here, content=matrix.tobytes()), 409, "wrong_state")
    assert quiet.get(here).json()["received"] == []
    assert httpx.put(upload["url"], content=matrix.tobytes()).status_code == 200
    assert quiet.get(here).json()["received"] == [[0, matrix.nbytes]]
    problem(quiet.get(f"/v1/matrices/{upload['id']}"), 404, "matrix_not_found")
    stored = completed(quiet, upload)
    assert stored.status_code == 201 and stored.json()["id"] == upload["id"]
    assert quiet.get(stored.headers["location"], headers={"accept": "application/octet-stream"}).content == (
        matrix.tobytes()
    )
    where = quiet.get(f"/v1/matrices/{upload['id']}/url").json()
    assert httpx.get(where["url"]).content == matrix.tobytes() and where["shape"] == [300, 200]
    job = quiet.post(
        "/v1/matmul",
        json={"a": {"matrix": upload["id"]}, "b": {"matrix": upload["id"]}, "transpose_b": True},
        headers={"prefer": "respond-async"},
    )
    assert job.status_code == 202
    assert api.stored_bytes() == matrix.nbytes
    httpx.put(upload["url"], content=fresh().tobytes())  # the URL lasts, and reaches nothing that is read
    assert httpx.get(where["url"]).content == matrix.tobytes()
    problem(completed(quiet, upload), 404, "matrix_not_found")


@pytest.mark.parametrize("sent", ["other", "short", "long"])
def test_what_is_something_else_is_no_matrix(api: Api, quiet: httpx.Client, sent: str) -> None:
    matrix, before = fresh(), api.stored_bytes()
    upload = opened(quiet, matrix)
    assert api.stored_bytes() == before + matrix.nbytes
    raw = matrix.tobytes()
    body = {"other": fresh().tobytes(), "short": raw[:-4], "long": raw + b"1234"}[sent]
    httpx.put(upload["url"], content=body)
    want = ("digest_mismatch", 409) if sent == "other" else ("invalid_matrix", 422)
    problem(completed(quiet, upload), want[1], want[0])
    problem(quiet.get(f"/v1/matrices/{upload['id']}"), 404, "matrix_not_found")
    problem(completed(quiet, upload), 404, "matrix_not_found")
    assert api.stored_bytes() == before


def test_an_upload_is_its_owners(api: Api, quiet: httpx.Client) -> None:
    upload = opened(quiet, MATRIX)
    httpx.put(upload["url"], content=MATRIX.tobytes())
    assert isinstance(api.store, ObjectMatrixStore)
    for look in (complete_upload, give_up):
        with pytest.raises(MatrixNotFound):
            look(api.store, upload["upload"], owner="eve", **({"ttl_s": 60.0} if look is complete_upload else {}))
    assert quiet.delete(f"/v1/uploads/{upload['upload']}").status_code == 204
    problem(completed(quiet, upload), 404, "matrix_not_found")


def test_completing_goes_on_after_the_store_was_away(
    api: Api, quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix, before = fresh(), api.stored_bytes()
    upload = opened(quiet, matrix)
    httpx.put(upload["url"], content=matrix.tobytes())
    assert isinstance(api.store, ObjectMatrixStore)
    with monkeypatch.context() as patch:
        patch.setattr(api.store.bucket, "get", lambda *_: (_ for _ in ()).throw(StoreUnavailable()))
        with pytest.raises(StoreUnavailable):
            complete_upload(api.store, upload["upload"], owner=ANONYMOUS, ttl_s=60.0)
    assert api.stored_bytes() == before + matrix.nbytes, "its room is still its own"
    assert completed(quiet, upload).status_code == 201
    assert api.stored_bytes() == before + matrix.nbytes


def test_the_same_key_opens_one_upload(quiet: httpx.Client) -> None:
    matrix = fresh()
    first, second = (opened(quiet, matrix, **{"idempotency-key": "an-upload"}) for _ in range(2))
    assert first["upload"] == second["upload"] and second["replayed"]
    quiet.delete(f"/v1/uploads/{first['upload']}")


@pytest.mark.parametrize(
    ("asked", "status", "kind", "field"),
    [
        ({"id": "0" * 63, "dtype": "float32", "shape": [2, 2]}, 422, "invalid_request", "id"),
        ({"dtype": "float32", "shape": [2, 2]}, 422, "invalid_request", "id"),
        ({"id": "0" * 64, "dtype": "float32", "shape": [-2, 2]}, 422, "invalid_matrix", "shape"),
        ({"id": "0" * 64, "dtype": "float31", "shape": [2, 2]}, 422, "unsupported_dtype", "dtype"),
        ({"id": "0" * 64, "dtype": "float64", "shape": [1 << 20, 1 << 20]}, 413, "body_too_large", "shape"),
        ({"id": "0" * 64, "dtype": "float32", "shape": [2, 2], "more": 1}, 422, "invalid_request", "more"),
    ],
)
def test_what_is_refused(quiet: httpx.Client, asked: dict[str, Any], status: int, kind: str, field: str) -> None:
    assert problem(quiet.post("/v1/uploads", json=asked), status, kind)["field"] == field


def test_without_an_object_store_there_are_no_urls(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> None:
    with running_api(valkey, key_prefix, tmp_path) as running, running.client() as quiet:
        stored = quiet.post("/v1/matrices", content=npy(MATRIX), headers={"content-type": "application/x-npy"})
        refusal = problem(quiet.get(f"{stored.headers['location']}/url"), 501, "no_object_store")
        assert refusal["detail"].startswith("This server's store gives no URLs; fetch")
        for reply in (quiet.get("/v1/uploads/up_0"), quiet.post("/v1/uploads/up_0/complete")):
            assert problem(reply, 404, "matrix_not_found")["field"] == "upload"


def test_matrices_in_redis_have_no_uploads(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> None:
    with running_api(valkey, key_prefix, tmp_path, store="redis") as running, running.client() as quiet:
        asked = {"id": "0" * 64, "dtype": "float32", "shape": [2, 2]}
        refusal = problem(quiet.post("/v1/uploads", json=asked), 501, "no_object_store")
        assert refusal["detail"].startswith("This server's store takes no uploads in ranges; send")
