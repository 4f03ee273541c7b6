"""The directory of matrices gone: what needs it is 503, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from jobs.errors import StoreUnavailable
from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from service.context import Breaker
from tests.integration.api.test_jobs import PRODUCT, problem, submit
from tests.support.stores import replace_with_file
from tools.harness.api import Api, npy, running_api

NPY = {"content-type": "application/x-npy"}


@pytest.fixture
def api(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> Iterator[Api]:
    with running_api(valkey, key_prefix, tmp_path) as running:
        yield running


@pytest.fixture
def broken(api: Api) -> Iterator[Path]:
    """A file in its place, so that it cannot be made again."""
    replace_with_file(api.settings.store_dir)
    yield api.settings.store_dir


def upload(client: httpx.Client, **headers: str) -> httpx.Response:
    return client.post("/v1/matrices", content=npy(np.ones((3, 3))), headers={**NPY, **headers})


def test_only_what_needs_the_disk_fails(quiet: httpx.Client, broken: Path) -> None:
    job_id = submit(quiet)
    for _ in range(10):
        problem(upload(quiet), 503, "store_unavailable")
        assert quiet.get(f"/v1/jobs/{job_id}").status_code == 200


def test_reads_say_so_too(api: Api, quiet: httpx.Client) -> None:
    job_id, matrix_id = submit(quiet), upload(quiet).json()["id"]
    api.succeed(job_id, PRODUCT)
    replace_with_file(api.settings.store_dir)
    octets = {"accept": "application/octet-stream"}
    problem(quiet.get(f"/v1/jobs/{job_id}/product"), 503, "store_unavailable")
    problem(quiet.get(f"/v1/matrices/{matrix_id}", headers=octets), 503, "store_unavailable")


def test_the_probe_tells(quiet: httpx.Client, broken: Path) -> None:
    assert "directory" in problem(quiet.get("/readyz"), 503, "store_unavailable")["detail"]
    broken.unlink()
    assert quiet.get("/readyz").status_code == 200
    assert broken.is_dir()


def test_a_key_is_free_again_after_a_failure_of_the_disk(quiet: httpx.Client, broken: Path) -> None:
    """The 503 says to try again in a second, and so it can be."""
    key = new_id("key")
    for _ in range(3):
        problem(upload(quiet, **{"idempotency-key": key}), 503, "store_unavailable")
    broken.unlink()
    assert quiet.get("/readyz").status_code == 200
    assert upload(quiet, **{"idempotency-key": key}).status_code == 201


@pytest.mark.parametrize(("resource", "is_open"), [("redis", True), ("disk", False)])
def test_the_breaker_is_for_redis_alone(resource: str, is_open: bool) -> None:
    breaker, calls = Breaker(), []

    def fail() -> None:
        calls.append(1)
        raise StoreUnavailable(resource="disk" if resource == "disk" else "redis")

    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            breaker.run(fail)
    assert len(calls) == (1 if is_open else 2)
