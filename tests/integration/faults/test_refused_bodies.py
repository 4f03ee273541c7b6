"""Bodies that are refused are gone with the reply, without a search for garbage: the next one may be as large."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator

import httpx
import pytest

from jobs import memory_tuning
from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from service.bodies.reader import Reader
from tests.integration.inference.test_refusals import LENGTH, RAW, document, framed
from tools.harness.api import JSON, Api, running_api, until

INFER = "/v2/models/matmul/infer"
MUCH = [1] * 100_000
TENSOR = {"shape": [1, 1], "datatype": "FP32"}
LARGE = {"shape": [2**10, 2**10], "datatype": "FP32", "parameters": {"binary_data_size": 2**22}}
RAW_BODY, RAW_HEAD_BYTES = framed(document(LARGE, RAW), bytes(2**25))


@pytest.fixture(scope="module")
def api(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(valkey, f"{new_id('refused')}:", tmp_path_factory.mktemp("refused")) as running:
        yield running


def pieces(body: bytes) -> Iterator[bytes]:
    for at in range(0, len(body), 2**16):
        yield body[at : at + 2**16]


def reader_count() -> int:
    return sum(issubclass(type(each), Reader) for each in gc.get_objects())


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        pytest.param(INFER, json.dumps(document({**TENSOR, "data": MUCH})).encode(), {}, 422, id="parsed"),
        pytest.param("/v1/matmul", json.dumps({"a": [MUCH], "b": [["x"]]}).encode(), JSON, 422, id="parsed as options"),
        pytest.param(INFER, bytes(2**23 + 1), {}, 413, id="too large"),
        pytest.param(INFER, RAW_BODY, {LENGTH: str(RAW_HEAD_BYTES)}, 422, id="too long"),
    ],
)
def test_a_refused_body_is_gone(
    api: Api, path: str, body: bytes, headers: dict[str, str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_tuning, "tidy_memory", lambda: None)
    with httpx.Client(base_url=api.url, timeout=60) as client:
        gc.collect()
        before = reader_count()
        gc.disable()
        try:
            assert client.post(path, content=pieces(body), headers=headers).status_code == status
            assert client.get("/livez").status_code == 200
            until(lambda: reader_count() == before, 20)
        finally:
            gc.enable()
