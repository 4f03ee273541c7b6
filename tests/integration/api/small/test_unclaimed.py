"""Operands of middling size: written as they come, and claimed in the step that records their job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from jobs.formats.elements import Array
from jobs.matrices.index import MatrixIndex
from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from service.api_process.unclaimed import MAX_BYTES, UnclaimedBytes
from service.bodies.uploads import MEMORY_BYTES, UNCLAIMED_BYTES
from tests.integration.api.test_matmul import files
from tools.harness.api import Api, running_api

BOUND_BYTES = 64 << 20
SIDE = 600
BYTES = 4 * SIDE * SIDE


class Watched:
    """What is unclaimed now, and claims that were made one by one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = self.most_bytes = self.claims = 0
        self.has_room = True
        claim = MatrixIndex.claim

        def take(_: UnclaimedBytes, size: int) -> bool:
            self.bytes += size if self.has_room else 0
            self.most_bytes = max(self.most_bytes, self.bytes)
            return self.has_room

        def give_back(_: UnclaimedBytes, size: int) -> None:
            self.bytes -= size

        def counted(index: MatrixIndex, *about: Any) -> Any:
            self.claims += 1
            return claim(index, *about)

        monkeypatch.setattr(UnclaimedBytes, "take", take)
        monkeypatch.setattr(UnclaimedBytes, "give_back", give_back)
        monkeypatch.setattr(MatrixIndex, "claim", counted)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


@pytest.fixture
def api(valkey: EmbeddedServer, tmp_path: Path) -> Iterator[Api]:
    with running_api(valkey, f"{new_id('test')}:", tmp_path, store_bytes=BOUND_BYTES) as api:
        yield api


@pytest.fixture
def client(api: Api) -> Iterator[httpx.Client]:
    with api.client(prefer="respond-async") as client:
        yield client


def ones(rows: int, columns: int = SIDE) -> Array:
    return np.ones((rows, columns), np.float32)


def operand_files(api: Api) -> list[str]:
    assert api.settings.store_dir is not None
    return [path.name for path in api.settings.store_dir.rglob("op_*")]


def test_both_are_claimed_with_the_job(api: Api, client: httpx.Client, watched: Watched) -> None:
    assert MEMORY_BYTES < BYTES <= UNCLAIMED_BYTES
    reply = client.post("/v1/matmul", files=files(ones(SIDE), 2 * ones(SIDE)))
    assert reply.status_code == 202, reply.text
    assert api.stored_bytes() >= 2 * BYTES
    assert (watched.claims, watched.most_bytes, watched.bytes) == (0, 2 * BYTES, 0)
    for operand in api.ledger.get(reply.json()["job"]["id"]).record.operands:
        assert operand.matrix is not None
        assert api.store.load(operand.matrix, operand.dtype, operand.shape).sum() in (SIDE**2, 2 * SIDE**2)


def test_one_that_would_be_too_many_is_claimed_first(api: Api, client: httpx.Client, watched: Watched) -> None:
    watched.has_room = False
    assert client.post("/v1/matmul", files=files(ones(SIDE), 2 * ones(SIDE))).status_code == 202
    assert api.stored_bytes() >= 2 * BYTES
    assert (watched.claims, watched.bytes) == (4, 0)  # each before and after


def test_a_larger_one_is_claimed_first(client: httpx.Client, watched: Watched) -> None:
    large = ones(UNCLAIMED_BYTES // (4 * SIDE) + 1)
    assert client.post("/v1/matmul", files=files(large, 2 * ones(SIDE))).status_code == 202
    assert (watched.claims, watched.most_bytes, watched.bytes) == (2, BYTES, 0)


@pytest.mark.parametrize("rows", [SIDE + 1, SIDE])
def test_what_is_refused_leaves_nothing(api: Api, client: httpx.Client, watched: Watched, rows: int) -> None:
    """For its shape, or for an option that is read last."""
    wrong = {"kernel": "none_such"} if rows == SIDE else {}
    reply = client.post("/v1/matmul", files=files(ones(SIDE), ones(rows), **wrong))
    assert reply.status_code == 422, reply.text
    assert (api.stored_bytes(), operand_files(api), watched.bytes) == (0, [], 0)


@pytest.mark.parametrize("has_room_for", [1, 2])
def test_without_room_nothing_is_left(
    valkey: EmbeddedServer, tmp_path: Path, watched: Watched, has_room_for: int
) -> None:
    """For both operands, or for their product."""
    bound = has_room_for * BYTES + BYTES // 2
    with (
        running_api(valkey, f"{new_id('test')}:", tmp_path, store_bytes=bound, store_bytes_per_key=bound) as api,
        api.client() as client,
    ):
        reply = client.post("/v1/matmul", files=files(ones(SIDE), 2 * ones(SIDE)))
        assert reply.status_code == 503 and "full" in reply.json()["type"], reply.text
        assert (api.stored_bytes(), operand_files(api), watched.bytes) == (0, [], 0)


def test_there_are_at_most_so_many_at_once() -> None:
    unclaimed = UnclaimedBytes()
    assert unclaimed.take(MAX_BYTES - 1) and not unclaimed.take(2) and unclaimed.take(1)
    unclaimed.give_back(5)
    assert not unclaimed.take(6) and unclaimed.take(5)
