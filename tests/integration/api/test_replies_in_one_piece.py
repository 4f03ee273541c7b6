"""Replies of a middling matrix: read once, sent as it was read, out of a buffer that is free again afterwards."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from jobs.formats.elements import Array
from jobs.formats.npy import npy_header
from jobs.matrices.file_store import FileMatrixStore
from jobs.matrices.indexed_store import READ_BUFFERS, IndexedMatrixStore
from jobs.matrices.interface import READ_CHUNK_BYTES, MatrixStore
from jobs.matrices.redis_store import RedisMatrixStore
from tests.support.stores import StoreBench
from tools.harness.api import Api, npy, until

NPY, OCTETS, TENSORS = "application/x-npy", "application/octet-stream", "application/x-safetensors"
MIDDLING = np.random.default_rng(3).standard_normal((1024, 1024), dtype=np.float32)
assert MIDDLING.nbytes == READ_CHUNK_BYTES


def uploaded(client: httpx.Client, matrix: Array) -> str:
    matrix_id: str = client.post("/v1/matrices", content=npy(matrix), headers={"content-type": NPY}).json()["id"]
    return matrix_id


def reads(monkeypatch: pytest.MonkeyPatch, stores: list[IndexedMatrixStore] | None = None) -> list[str]:
    """How the server's store is read from now on, and which it is."""
    seen: list[str] = []
    for kind, name in ((FileMatrixStore, "whole"), (RedisMatrixStore, "whole"), (IndexedMatrixStore, "chunks")):
        own = getattr(kind, name)

        def read(store: IndexedMatrixStore, *args: Any, name: str = name, own: Any = own, **kwargs: Any) -> Any:
            made = own(store, *args, **kwargs)
            seen.append(name if made is not None else f"no {name}")
            if stores is not None:
                stores.append(store)
            return made

        monkeypatch.setattr(kind, name, read)
    return seen


def free_buffers(store: Any) -> int:
    held = []
    while (buffer := store._buffers.take()) is not None:
        held.append(buffer)
    return len(held)


@pytest.mark.parametrize("media_type", [NPY, OCTETS, TENSORS])
def test_it_is_read_once(served: tuple[Api, StoreBench], media_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api, stores = served
    with api.client() as client:
        matrix_id = uploaded(client, MIDDLING)
        seen = reads(monkeypatch)
        reply = client.get(f"/v1/matrices/{matrix_id}", headers={"accept": media_type})
        assert reply.status_code == 200 and reply.content.endswith(MIDDLING.tobytes())
        assert int(reply.headers["content-length"]) == len(reply.content)
        if media_type == NPY:
            assert reply.content == npy_header("float32", MIDDLING.shape) + MIDDLING.tobytes()
        in_buffers = stores.kind != "redis"
        assert seen == (["whole"] if in_buffers else ["no whole", "chunks", "chunks"])


def test_buffers_are_free_again_and_without_one_it_comes_in_pieces(
    served: tuple[Api, StoreBench], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, stores = served
    if stores.kind != "file":
        pytest.skip("does not read into buffers")
    used: list[IndexedMatrixStore] = []
    seen = reads(monkeypatch, used)
    with api.client(accept=OCTETS) as client:
        matrix_id = uploaded(client, MIDDLING)
        for _ in range(2 * READ_BUFFERS):
            assert client.get(f"/v1/matrices/{matrix_id}").content == MIDDLING.tobytes()
        store = used[0]
        until(lambda: free_buffers(store) == READ_BUFFERS, 10)
        held = [store._buffers.take() for _ in range(READ_BUFFERS)]
        seen.clear()
        assert client.get(f"/v1/matrices/{matrix_id}").content == MIDDLING.tobytes()
        assert seen[0] == "no whole" and "chunks" in seen
        del held


def test_ranges_heads_and_conditions_are_as_they_were(served: tuple[Api, StoreBench]) -> None:
    api, _ = served
    with api.client(accept=OCTETS) as client:
        url = f"/v1/matrices/{uploaded(client, MIDDLING)}"
        raw, whole = MIDDLING.tobytes(), client.get(url)
        part = client.get(url, headers={"range": "bytes=1000000-3999999"})
        assert (part.status_code, part.content) == (206, raw[1_000_000:4_000_000])
        head = client.head(url)
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(raw)))
        again = client.get(url, headers={"if-none-match": whole.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("position", [0, READ_CHUNK_BYTES // 2, READ_CHUNK_BYTES - 1])
def test_damage_anywhere_in_it_is_told_in_place_of_it(served: tuple[Api, StoreBench], position: int) -> None:
    api, stores = served
    with api.client(accept=OCTETS) as client:
        before = {*stores.kept()}
        matrix_id = uploaded(client, MIDDLING + np.float32(position + 1))
        (kept,) = {*stores.kept()} - before
        stores.flip(position, kept)
        reply = client.get(f"/v1/matrices/{matrix_id}")
        assert (reply.status_code, reply.json()["type"]) == (500, "/problems/matrix_damaged")


def test_each_process_tidies_its_maps(served: tuple[Api, StoreBench], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(MatrixStore, "tidy_maps", lambda *given: seen.append(given))
    monkeypatch.setattr(FileMatrixStore, "tidy_maps", lambda *given: seen.append(given))
    until(lambda: len(seen) >= 2)
