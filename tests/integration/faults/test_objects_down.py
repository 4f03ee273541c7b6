"""The object store cut off: accepted jobs wait for it, callers are told, and no secret is in a log."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.integration.api.test_jobs import problem
from tests.support.objects import SECRET, CutOff, ObjectServer, cut_off_at_will
from tools.harness.api import from_npy, http_client, npy, until
from tools.stack import Stack

OUTAGE_S = float(os.environ.get("MATMUL_TEST_OUTAGE_S", "3"))  # 30 and more for a run by hand
JOBS = 6
SMALL_BYTES = 4096
RNG = np.random.default_rng(5)


@pytest.fixture
def link(objects: ObjectServer, tmp_path: Path) -> Iterator[CutOff]:
    with cut_off_at_will(objects, tmp_path) as link:
        yield link


@pytest.fixture
def stack(link: CutOff, key_prefix: str, tmp_path: Path) -> Iterator[Stack]:
    """Two hosts, the API's and a worker's, each with a directory of its own."""
    more = {
        "s3_timeout_s": "0.5",
        "record_matrix_bytes": f"{SMALL_BYTES}",
        "cpu_threads": "1",
        "redis_timeout_s": "5",
        "sweep_grace_s": "0.5",
        "max_attempts": "1",  # a run that was counted would be the last
    }
    with Stack(tmp_path, settings=link.server.settings(key_prefix) | more, separate_stores=True) as stack:
        yield stack


def stored(client: httpx.Client, matrix: Any) -> httpx.Response:
    return client.post("/v1/matrices", content=npy(matrix), headers={"content-type": "application/x-npy"})


def answered(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """The first answer that is no 503: on a busy machine the object store may take longer than the service waits."""
    replies: list[httpx.Response] = []

    def is_answered() -> bool:
        replies.append(ask())
        return replies[-1].status_code != 503

    until(is_answered, timeout_s=120)
    return replies[-1]


def product(client: httpx.Client, job: str) -> Any:
    reply = answered(lambda: client.get(f"/v1/jobs/{job}/product", headers={"accept": "application/x-npy"}))
    assert reply.status_code == 200, reply.text
    return from_npy(reply.content)


def submit(client: httpx.Client, a: str, b: str) -> str:
    asked = {"a": {"matrix": a}, "b": {"matrix": b}}
    reply = client.post("/v1/matmul", json=asked, headers={"prefer": "respond-async"})
    assert reply.status_code == 202, reply.text
    return str(reply.json()["job"]["id"])


def test_accepted_jobs_outlast_it_and_callers_are_told(link: CutOff, stack: Stack, tmp_path: Path) -> None:
    with http_client(stack.url) as client:
        operands = [RNG.standard_normal((2, 90, 90)).astype(np.float32) for _ in range(JOBS)]
        names = [[answered(partial(stored, client, each)).json()["id"] for each in pair] for pair in operands]
        link.cut()
        began = time.monotonic()
        jobs = [submit(client, *pair) for pair in names]  # no worker has a copy of any operand
        refused = stored(client, operands[0][0] + 1)
        assert "object store" in problem(refused, 503, "store_unavailable")["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        small = client.post("/v1/matmul", json={"a": [[2.0]], "b": [[3.0]]}, headers={"prefer": "wait=30"})
        assert small.status_code == 200 and small.json()["c"] == [[6.0]], "it needs no object store, nor waits for one"
        while time.monotonic() - began < OUTAGE_S:
            assert {client.get(f"/v1/jobs/{job}").json()["state"] for job in jobs} <= {"queued", "running"}
            time.sleep(0.1)
        link.mend()
        for job, (a, b) in zip(jobs, operands, strict=True):
            record = client.get(f"/v1/jobs/{job}", headers={"prefer": "wait=60"}).json()
            assert record["state"] == "succeeded", record
            np.testing.assert_allclose(product(client, job), a @ b, rtol=1e-3, atol=1e-3)
    logs = "".join(path.read_text(errors="replace") for path in tmp_path.glob("*.log"))
    assert SECRET not in logs and "X-Amz-Signature" not in logs
