"""Which jobs a CPU may compute in one launch: those whose matrices are small, in the record or stored for the job."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from jobs.formats.elements import Array
from jobs.ledger.interface import JobFilter
from jobs.ledger.submission import BESIDE
from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from service.submit.product import TOGETHER_BYTES
from tests.integration.api.test_matmul import files
from tools.harness.api import FAKE_TTL_S, Api, from_npy, running_api, until, worker_info

SIDE = 256  # of a matrix of TOGETHER_BYTES


@pytest.fixture
def api(valkey: EmbeddedServer, tmp_path: Path) -> Iterator[Api]:
    with running_api(valkey, f"{new_id('test')}:", tmp_path, record_matrix_bytes=1024) as api:
        yield api


@pytest.fixture
def client(api: Api) -> Iterator[httpx.Client]:
    with api.client(prefer="respond-async", accept="application/x-npy") as client:
        yield client


def ones(rows: int, columns: int) -> Array:
    return np.ones((rows, columns), np.float32)


def batch(api: Api, client: httpx.Client, a: Array, b: Array, **options: Any) -> str:
    """What the job of that product has in common with others."""
    reply = client.post("/v1/matmul", files=files(a, b, **options))
    assert reply.status_code == 202, reply.text
    return api.ledger.get(reply.json()["job"]["id"]).batch


def test_small_ones_of_one_kind_have_it_in_common(api: Api, client: httpx.Client) -> None:
    assert 4 * SIDE * SIDE == TOGETHER_BYTES
    whole = batch(api, client, ones(SIDE, SIDE), ones(SIDE, SIDE))
    assert whole not in ("", BESIDE)
    assert whole == batch(api, client, ones(SIDE - 9, SIDE), ones(SIDE, SIDE - 3))
    assert whole != batch(api, client, ones(SIDE, 9), ones(9, SIDE))
    assert whole != batch(api, client, ones(SIDE, SIDE), ones(SIDE, SIDE), verify="off")
    assert batch(api, client, ones(9, 9), ones(9, 90)) not in ("", BESIDE)  # some in the record, the others not


@pytest.mark.parametrize("shape", [(SIDE + 1, SIDE, 2), (2, SIDE, SIDE + 1), (SIDE + 1, 2, SIDE)], ids=str)
def test_a_larger_matrix_goes_by_itself(api: Api, client: httpx.Client, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    assert batch(api, client, ones(m, k), ones(k, n)) == BESIDE


def test_one_that_was_stored_before_goes_by_itself(api: Api, client: httpx.Client) -> None:
    stored = client.post("/v1/matrices", json={"data": [[1.0] * 90] * 90}).json()["id"]
    reply = client.post("/v1/matmul", json={"a": {"matrix": stored}, "b": {"matrix": stored}})
    assert api.ledger.get(reply.json()["job"]["id"]).batch == BESIDE


def test_on_a_gpu_they_are_under_way_beside_each_other(api: Api, client: httpx.Client) -> None:
    gpu = worker_info("gpu", kernels=("naive",), name="A GPU", device_class="gpu", compute_capability=(9, 0))
    api.registry.beat(gpu, FAKE_TTL_S)
    job = client.post("/v1/matmul", files=files(ones(90, 90), ones(90, 90), kernel="naive")).json()["job"]["id"]
    assert (api.ledger.get(job).queue, api.ledger.get(job).batch) == ("gpu", BESIDE)


@pytest.mark.parametrize("side", [SIDE, 2 * SIDE])
def test_a_stored_product_comes_back_to_who_waits(api: Api, side: int) -> None:
    """One that is read at once, and one that a thread reads."""
    product = np.arange(side * side, dtype=np.float32).reshape(side, side)
    with api.client(prefer="wait=20", accept="application/x-npy") as waiting, ThreadPoolExecutor(1) as thread:
        asked = thread.submit(waiting.post, "/v1/matmul", files=files(ones(side, side), ones(side, side)))
        until(lambda: api.ledger.list(JobFilter(), limit=1).jobs)
        (job,) = api.ledger.list(JobFilter(), limit=1).jobs
        api.succeed(job.id, product)
        reply = asked.result()
    assert reply.status_code == 200
    np.testing.assert_array_equal(from_npy(reply.content), product)
