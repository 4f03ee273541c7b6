"""Large matrices that come in ranges, over several connections, cut off and taken up again."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from jobs.errors import MatrixNotFound
from jobs.matrices.file_lock import SHARED, open_locked
from jobs.matrices.file_store import FileMatrixStore
from jobs.matrices.interface import content_hasher
from jobs.matrices.ranged.upload import BLOCK_BYTES, find_upload
from jobs.models import ANONYMOUS, new_id
from jobs.redis.embedded import EmbeddedServer
from matmul_client import AsyncClient, Client
from matmul_client.core import matrices as core_matrices
from matmul_client.core import ranges as core_ranges
from tests.integration.api.test_jobs import problem
from tools.harness.api import Api, running_api

SIDE = 1536  # 9 MiB
SHAPES = [(SIDE, SIDE), (1031, 1117), (3, 5), (0, 7)]  # a slot of whole blocks, one with a short end, a file, nothing


@pytest.fixture(scope="module", params=["slots", "disk", "files"])
def api(request: pytest.FixtureRequest, valkey: EmbeddedServer, tmp_path_factory: Any) -> Iterator[Api]:
    """With slots that are used again, on a tmpfs or not; with those of a disk, which have labels; and in a store that
    keeps none."""
    directory: Path = tmp_path_factory.mktemp("api")
    free = {"slots": 256 << 20, "disk": None, "files": 0}[request.param]
    (directory / "mounts").write_text("none / ext4 rw 0 0\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jobs.disk.MOUNTS", directory / "mounts")
        with running_api(valkey, f"{new_id('api')}:", directory, store_free_bytes=free) as running:
            yield running


def fresh(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng().standard_normal(shape).astype(np.float32)


def id_of(matrix: Any) -> str:
    hasher = content_hasher("float32", matrix.shape)
    hasher.update(matrix.tobytes())
    return hasher.hexdigest()


def opened(quiet: httpx.Client, matrix: Any, **more: str) -> str:
    reply = quiet.post("/v1/uploads", json={"dtype": "float32", "shape": list(matrix.shape), **more})
    assert reply.status_code == 201, reply.text
    assert reply.json()["bytes"] == matrix.nbytes
    assert reply.json()["url"] == reply.headers["location"]
    return str(reply.json()["url"])


def ranges(size: int, blocks: int) -> list[tuple[int, int]]:
    step = blocks * BLOCK_BYTES
    return [(at, min(size, at + step)) for at in range(0, size, step)]


def send(quiet: httpx.Client, url: str, raw: bytes, first: int, after: int) -> httpx.Response:
    said = {"content-range": f"bytes {first}-{after - 1}/{len(raw)}"}
    return quiet.put(url, content=raw[first:after], headers=said)


def content(quiet: httpx.Client, matrix_id: str) -> bytes:
    reply = quiet.get(f"/v1/matrices/{matrix_id}", headers={"accept": "application/octet-stream"})
    assert reply.status_code == 200, reply.text
    return reply.content


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("blocks", [1, 4])
def test_ranges_in_any_order_over_several_connections(
    api: Api, quiet: httpx.Client, shape: tuple[int, ...], blocks: int
) -> None:
    matrix, before = fresh(shape), api.stored_bytes()
    raw, url = matrix.tobytes(), opened(quiet, matrix)
    parts = ranges(len(raw), blocks) * 2  # each one twice
    random.Random(7).shuffle(parts)
    with ThreadPoolExecutor(4) as threads:
        replies = list(threads.map(lambda part: send(quiet, url, raw, *part), parts))
    assert all(reply.status_code == 204 for reply in replies), [reply.text for reply in replies]
    stored = quiet.post(f"{url}/complete")
    assert stored.status_code == 201 and stored.json()["id"] == id_of(matrix), stored.text
    assert content(quiet, id_of(matrix)) == raw
    if matrix.size:  # nothing is there already, the second time
        assert api.stored_bytes() - before == max(4096, matrix.nbytes), "the upload's room is the matrix's"
    problem(quiet.post(f"{url}/complete"), 404, "matrix_not_found")
    problem(quiet.get(url), 404, "matrix_not_found")


def test_what_is_missing_is_told_and_can_be_sent(quiet: httpx.Client) -> None:
    matrix = fresh((SIDE, SIDE))
    raw, url = matrix.tobytes(), opened(quiet, matrix, id=id_of(matrix))
    assert quiet.get(url).json()["received"] == []
    for first, after in [(BLOCK_BYTES, 3 * BLOCK_BYTES), (8 * BLOCK_BYTES, 9 * BLOCK_BYTES)]:
        assert send(quiet, url, raw, first, after).status_code == 204
    status = quiet.get(url).json()
    assert status["received"] == [[BLOCK_BYTES, 3 * BLOCK_BYTES], [8 * BLOCK_BYTES, 9 * BLOCK_BYTES]]
    told = problem(quiet.post(f"{url}/complete"), 409, "upload_not_sent")
    assert "Bytes 0 to 1048575 of this upload have not come, and 1 more ranges" in told["detail"]
    assert send(quiet, url, raw, 0, BLOCK_BYTES).status_code == 204
    assert send(quiet, url, raw, 3 * BLOCK_BYTES, 8 * BLOCK_BYTES).status_code == 204
    assert quiet.post(f"{url}/complete").status_code == 201


def test_blocks_of_a_range_that_was_cut_off_are_kept(api: Api, quiet: httpx.Client) -> None:
    matrix = fresh((SIDE, SIDE))
    raw, url = matrix.tobytes(), opened(quiet, matrix)
    head = f"PUT {url} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(raw)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", urlsplit(api.url).port)) as caller:
        caller.sendall(head + raw[:-999])
        deadline = time.monotonic() + 60
        while not quiet.get(url).json()["received"] and time.monotonic() < deadline:
            time.sleep(0.02)
    deadline = time.monotonic() + 60
    while quiet.post(f"{url}/complete").json()["type"] != "/problems/upload_not_sent" and time.monotonic() < deadline:
        time.sleep(0.02)  # until the API has seen that the caller is gone
    ((first, after),) = quiet.get(url).json()["received"]
    assert first == 0 and 0 < after < len(raw) and after % BLOCK_BYTES == 0
    assert send(quiet, url, raw, after, len(raw)).status_code == 204
    assert quiet.post(f"{url}/complete").json()["id"] == id_of(matrix)


def test_other_contents_than_were_said_end_it(api: Api, quiet: httpx.Client) -> None:
    matrix, before = fresh((SIDE, SIDE)), api.stored_bytes()
    url = opened(quiet, matrix, id=id_of(fresh((SIDE, SIDE))))
    assert quiet.put(url, content=matrix.tobytes()).status_code == 204
    problem(quiet.post(f"{url}/complete"), 409, "digest_mismatch")
    problem(quiet.post(f"{url}/complete"), 404, "matrix_not_found")
    assert api.stored_bytes() == before and not os.path.exists(api.store.path(url.rpartition("/")[2]))  # type: ignore[attr-defined]


def test_the_same_contents_are_kept_once(api: Api, quiet: httpx.Client) -> None:
    matrix = fresh((SIDE, SIDE))
    before = api.stored_bytes()
    for _ in range(2):
        url = opened(quiet, matrix)
        assert quiet.put(url, content=matrix.tobytes()).status_code == 204
        assert quiet.post(f"{url}/complete").status_code == 201
    assert api.stored_bytes() - before == matrix.nbytes
    assert content(quiet, id_of(matrix)) == matrix.tobytes()


@pytest.mark.parametrize(
    ("said", "status", "kind"),
    [
        ("bytes 0-1048574/9437184", 422, "invalid_request"),
        ("bytes 5-1048575/9437184", 422, "invalid_request"),
        ("bytes 0-9437184/9437184", 422, "invalid_request"),
        ("bytes 0-1048575/9437185", 400, "invalid_header"),
        ("bytes 0-1048575/*", 400, "invalid_header"),
        ("bytes 1048576-0/9437184", 400, "invalid_header"),
        ("rows 0-1048575/9437184", 400, "invalid_header"),
        ("bytes 0-2097151/9437184", 422, "invalid_matrix"),
    ],
)
def test_ranges_that_are_none(quiet: httpx.Client, said: str, status: int, kind: str) -> None:
    matrix = fresh((SIDE, SIDE))
    url = opened(quiet, matrix)
    reply = quiet.put(url, content=matrix.tobytes()[:BLOCK_BYTES], headers={"content-range": said})
    problem(reply, status, kind)


def test_what_else_is_refused(quiet: httpx.Client) -> None:
    matrix = fresh((SIDE, SIDE))
    raw, url = matrix.tobytes(), opened(quiet, matrix)
    long = quiet.put(url, content=raw, headers={"content-range": "bytes 0-1048575/9437184"})
    problem(long, 413, "body_too_large")
    huge = quiet.post("/v1/uploads", json={"dtype": "float64", "shape": [1 << 20, 1 << 20]})
    assert problem(huge, 413, "body_too_large")["field"] == "shape"
    problem(quiet.put(url, content=raw, headers={"content-type": "text/plain"}), 415, "unsupported_media_type")
    assert quiet.get(url).json()["received"] == []
    assert quiet.delete(url).status_code == 204
    assert "no upload with that id" in problem(quiet.delete(url), 404, "matrix_not_found")["detail"]
    problem(quiet.put(url, content=raw), 404, "matrix_not_found")
    problem(quiet.put("/v1/uploads/up_x", content=raw), 404, "matrix_not_found")
    problem(quiet.post("/v1/uploads", json={"id": "x", "dtype": "float32", "shape": [2, 2]}), 422, "invalid_request")


def test_while_a_range_comes_it_is_not_completed(api: Api, quiet: httpx.Client) -> None:
    matrix = fresh((SIDE, SIDE))
    url = opened(quiet, matrix)
    assert quiet.put(url, content=matrix.tobytes()).status_code == 204
    assert isinstance(api.store, FileMatrixStore)
    held = open_locked(api.store.path(url.rpartition("/")[2]), SHARED)
    assert held is not None
    problem(quiet.post(f"{url}/complete"), 409, "wrong_state")
    held.close()
    assert quiet.post(f"{url}/complete").status_code == 201


def test_notes_that_a_dead_process_wrote_over_end_it(api: Api, quiet: httpx.Client) -> None:
    """Between the digests and the new name of the file."""
    matrix, before = fresh((SIDE, SIDE)), api.stored_bytes()
    url = opened(quiet, matrix)
    assert quiet.put(url, content=matrix.tobytes()).status_code == 204
    assert isinstance(api.store, FileMatrixStore)
    held = open_locked(api.store.path(url.rpartition("/")[2]), SHARED)
    assert held is not None
    os.pwrite(held.fd, b"\xa5" * 4608, matrix.nbytes)
    held.close()
    problem(quiet.post(f"{url}/complete"), 404, "matrix_not_found")
    assert api.stored_bytes() == before


def test_an_upload_is_its_owners(api: Api, quiet: httpx.Client) -> None:
    url = opened(quiet, fresh((SIDE, SIDE)))
    assert isinstance(api.store, FileMatrixStore)
    assert find_upload(api.store, url.rpartition("/")[2], owner=ANONYMOUS).bytes == SIDE * SIDE * 4
    with pytest.raises(MatrixNotFound):
        find_upload(api.store, url.rpartition("/")[2], owner="eve", renews=True)


def test_the_client_sends_a_large_matrix_in_ranges(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_matrices, "RANGED_BYTES", BLOCK_BYTES)
    monkeypatch.setattr(core_ranges, "RANGE_BYTES", BLOCK_BYTES)
    matrix = fresh((1031, 1117))
    with Client(api.url) as mm:
        assert mm.upload(matrix).id == id_of(matrix)
        assert np.array_equal(mm.matrix(id_of(matrix)).numpy(), matrix)


def test_so_does_the_one_for_asyncio(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_matrices, "RANGED_BYTES", BLOCK_BYTES)
    monkeypatch.setattr(core_ranges, "RANGE_BYTES", BLOCK_BYTES)
    matrix = fresh((1031, 1117))

    async def main() -> None:
        async with AsyncClient(api.url) as mm:
            assert (await mm.upload(matrix)).id == id_of(matrix)

    asyncio.run(main())
