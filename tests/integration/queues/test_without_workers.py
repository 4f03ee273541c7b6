"""Products that are asked for while no worker is live: refused, or queued until one is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from tests.integration.api.test_jobs import problem
from tests.support.workers.workers import WorkerBench
from tools.harness.api import FAKE_TTL_S, Api, http_client, running_api, until, worker_info

ASYNC = {"prefer": "respond-async"}
BODY: dict[str, Any] = {"a": [[1, 2]], "b": [[3], [4]]}
GPU = worker_info("gpu-0", kernels=("naive",), device_class="gpu", compute_capability=(9, 0))


@pytest.fixture
def api(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> Iterator[Api]:
    """Of the test alone, as its worker goes."""
    with running_api(valkey, key_prefix, tmp_path) as running:
        yield running


def submit(client: httpx.Client, *, headers: dict[str, str] | None = None, **options: Any) -> httpx.Response:
    return client.post("/v1/matmul", json=BODY | options, headers=headers)


def queue_of(api: Api, reply: httpx.Response) -> str:
    assert reply.status_code == 202, reply.text
    return api.ledger.get(reply.json()["job"]["id"]).queue


def without_workers(api: Api, client: httpx.Client) -> None:
    api.registry.gone("played")
    until(lambda: not client.get("/v1/devices").json()["devices"])
    until(lambda: submit(client, headers={"prefer": "wait=0"}, kernel="cpu_blas").status_code != 202)


def test_a_job_that_nobody_can_take_waits_for_a_worker_to_be_started(
    valkey: EmbeddedServer, key_prefix: str, tmp_path: Path
) -> None:
    """The service and the worker are real."""
    with (
        running_api(valkey, key_prefix, tmp_path, sweeper=True, sweep_s=0.05) as api,
        http_client(api.url) as client,
    ):
        without_workers(api, client)
        problem(submit(client), 503, "no_workers")
        reply = submit(client, headers=ASYNC)
        assert reply.status_code == 202 and reply.headers["preference-applied"] == "respond-async"
        location = reply.headers["location"]
        told = "waits for a worker of the queue cpu; none is live"
        until(lambda: client.get(location).json()["progress"]["current"] == told)
        assert client.get(location).json()["state"] == "queued"
        assert told in client.get(f"/ui/jobs/{reply.json()['job']['id']}").text
        front = client.get("/").text
        assert "Queue cpu</strong>" in front and "and no worker for it is live" in front
        assert 'matmul_queue_waiting_jobs{queue="cpu"} 1.0' in client.get("/metrics").text.splitlines()
        own = {"key_prefix": key_prefix, "store_dir": str(api.settings.store_dir)}
        worker = WorkerBench(valkey, tmp_path, overrides=own)
        try:
            worker.start()
            until(lambda: client.get(location).json()["state"] == JobState.SUCCEEDED, timeout_s=60)
        finally:
            worker.stop()
            worker.client.close()
        product = client.get(f"{location}/product", headers={"accept": "application/json"})
        assert product.json()["c"] == [[11.0]]


def test_who_does_not_ask_is_refused_and_told_how_to(api: Api, quiet: httpx.Client) -> None:
    without_workers(api, quiet)
    for headers in (None, {"prefer": "wait=5"}):
        assert "Prefer: respond-async" in problem(submit(quiet, headers=headers), 503, "no_workers")["detail"]
    problem(quiet.get("/readyz"), 503, "no_workers")
    assert queue_of(api, submit(quiet, headers={"prefer": "respond-async, wait=0"})) == "cpu"
    assert queue_of(api, submit(quiet, headers=ASYNC, kernel="cpu_blas")) == "cpu"
    assert queue_of(api, submit(quiet, headers=ASYNC, kernel="naive")) == "gpu"
    problem(quiet.post("/v1/benchmarks", json={"preset": "quick"}, headers=ASYNC), 503, "no_workers")


def test_an_inference_request_is_not_told_of_a_header_that_it_cannot_have(api: Api, quiet: httpx.Client) -> None:
    without_workers(api, quiet)
    inputs = [{"name": name, "shape": [1, 1], "datatype": "FP32", "data": [2]} for name in ("A", "B")]
    reply = quiet.post("/v2/models/matmul/infer", json={"inputs": inputs}, headers=ASYNC)
    assert reply.status_code == 503, reply.text
    assert "No worker is running" in reply.json()["error"] and "Prefer" not in reply.json()["error"]


def test_the_page_leads_to_a_job_that_waits(api: Api, quiet: httpx.Client) -> None:
    without_workers(api, quiet)
    fields = {"source": "pasted", "a": "16777217", "b": "1"}
    reply = quiet.post("/ui/multiply", files=[(name, (None, value)) for name, value in fields.items()])
    assert reply.status_code == 303
    record = api.ledger.get(reply.headers["location"].rpartition("/")[2]).record
    assert (record.state, record.operands[0].dtype) == (JobState.QUEUED, "float64")


def test_a_live_worker_that_cannot_is_no_reason_to_wait(api: Api, quiet: httpx.Client) -> None:
    """Who asks for a kernel that no live worker has is told so at once."""
    problem(submit(quiet, headers=ASYNC, kernel="naive"), 409, "no_worker_for_kernel")


def test_nor_is_one_that_is_out_of_service(api: Api, quiet: httpx.Client) -> None:
    api.registry.gone("played")
    api.registry.beat(GPU.model_copy(update={"state": "quarantined", "reason": "It was wrong twice."}), FAKE_TTL_S)
    until(lambda: submit(quiet, headers=ASYNC).status_code != 202)
    assert "It was wrong twice." in problem(submit(quiet, headers=ASYNC), 503, "no_workers")["detail"]


@pytest.mark.parametrize("first", ["cpu", "gpu"])
def test_by_a_setting_all_wait(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path, first: str) -> None:
    own = {"queue_without_workers": "always", "class_without_workers": first}
    with running_api(valkey, key_prefix, tmp_path, **own) as api, http_client(api.url) as client:
        assert queue_of(api, submit(client, headers={"prefer": "wait=0"}, kernel="naive")) == "gpu"
        api.registry.gone("played")
        until(lambda: not client.get("/v1/devices").json()["devices"])
        until(lambda: client.get("/readyz").json()["workers"] == 0)
        assert client.get("/readyz").json()["warnings"] == ["No worker is live; products wait until one is."]
        until(lambda: queue_of(api, submit(client, headers={"prefer": "wait=0"})) == first)


def test_by_a_setting_none_does(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> None:
    own = {"queue_without_workers": "never"}
    with running_api(valkey, key_prefix, tmp_path, **own) as api, http_client(api.url) as client:
        without_workers(api, client)
        assert "Prefer" not in problem(submit(client, headers=ASYNC), 503, "no_workers")["detail"]


def test_a_job_goes_to_the_class_that_is_started(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> None:
    """The sweeper moves it, as any job whose class has no worker."""
    own: dict[str, Any] = {"sweeper": True, "sweep_s": 0.02, "move_after_s": 0.0}
    with running_api(valkey, key_prefix, tmp_path, **own) as api, http_client(api.url) as client:
        without_workers(api, client)
        job = submit(client, headers=ASYNC).json()["job"]["id"]
        assert api.ledger.get(job).queue == "cpu"
        api.registry.beat(GPU, FAKE_TTL_S)
        until(lambda: api.ledger.get(job).queue == "gpu")
