"""What the API says when workers come and go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from jobs.fleet.workers import DeviceInfo
from jobs.redis.embedded import EmbeddedServer
from kernels.catalog import BY_NAME
from matmul_client.cli.commands import matmul
from tests.integration.api.test_jobs import SEEDED, problem
from tools.harness.api import FAKE_TTL_S, Api, running_api, until, worker_info

ASYNC, AT_ONCE = {"prefer": "respond-async"}, {"prefer": "wait=0"}  # the first may wait for a worker, too
LEFT_OUT = (("cublas", "bfloat16"), ("naive", "float32"))
GPU = worker_info("gpu-0", kernels=("naive", "cublas"), device_class="gpu", compute_capability=(9, 0))


@pytest.fixture
def api(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> Iterator[Api]:
    with running_api(valkey, key_prefix, tmp_path) as running:
        yield running


def test_without_workers_it_is_not_ready_and_takes_nothing(api: Api, quiet: httpx.Client) -> None:
    assert quiet.get("/readyz").json() == {"status": "ok", "workers": 1}
    api.registry.gone("played")
    until(lambda: quiet.post("/v1/matmul", json=SEEDED, headers=AT_ONCE).status_code != 202)
    refused = quiet.post("/v1/matmul", json=SEEDED, headers=AT_ONCE)
    problem(refused, 503, "no_workers")
    assert refused.headers["retry-after"]
    problem(quiet.get("/readyz"), 503, "no_workers")
    assert quiet.get("/livez").status_code == 200
    named = quiet.post("/v1/matmul", json=SEEDED | {"kernel": "cpu_blas"}, headers=AT_ONCE)
    assert "served now: none" in problem(named, 409, "no_worker_for_kernel")["detail"]
    api.registry.beat(worker_info(), FAKE_TTL_S)
    until(lambda: quiet.post("/v1/matmul", json=SEEDED, headers=ASYNC).status_code == 202)


def test_jobs_go_to_the_queue_of_who_can_do_them(api: Api, quiet: httpx.Client) -> None:
    def queue(**options: str) -> str:
        reply = quiet.post("/v1/matmul", json=SEEDED | options, headers=ASYNC)
        return api.ledger.get(reply.json()["job"]["id"]).queue

    assert queue() == "cpu"
    api.registry.beat(GPU, FAKE_TTL_S)
    until(lambda: queue() == "gpu")
    assert queue(kernel="cpu_blas") == "cpu"
    assert queue(kernel="naive") == "gpu"


def test_what_live_workers_lack_for_a_kernel_is_said(api: Api, quiet: httpx.Client) -> None:
    """In the list, to who names it, on its page and by the command."""
    old = worker_info("gpu-0", kernels=("naive", "cublas"), device_class="gpu", compute_capability=(8, 0))
    lacks = BY_NAME["hopper_bf16"].unsupported_because(old.device.traits)
    assert lacks and quiet.get("/v1/kernels/hopper_bf16").json()["unserved"] is None
    api.registry.beat(old, FAKE_TTL_S)
    until(lambda: quiet.get("/v1/kernels/hopper_bf16").json()["unserved"] == lacks)
    refused = quiet.post("/v1/matmul", json=SEEDED | {"kernel": "hopper_bf16", "dtype": "bfloat16"}, headers=AT_ONCE)
    assert problem(refused, 409, "no_worker_for_kernel")["detail"].endswith(f". {lacks}")
    for path in ("/ui/kernels", "/ui/kernels/hopper_bf16", "/ui/multiply"):
        assert lacks in quiet.get(path).text
    told = CliRunner().invoke(matmul, ("kernels", "hopper_bf16"), env={"MATMUL_URL": api.url})
    assert f"Not served now: {lacks}" in " ".join(told.stdout.split())


def test_what_a_worker_left_out_is_shown_and_refused_in_a_sentence(api: Api, quiet: httpx.Client) -> None:
    """Of `cublas` for one type of its; of `naive` for its only one here, so nobody serves it."""
    reasons = {(name, dtype): f"{name} could not multiply {dtype}: libcublasLt is <old>." for name, dtype in LEFT_OUT}
    left_out = [{"kernel": name, "dtype": dtype, "reason": each} for (name, dtype), each in reasons.items()]
    device = DeviceInfo.model_validate(GPU.device.model_dump() | {"left_out": left_out})
    api.registry.beat(GPU.model_copy(update={"device": device, "kernels": ("cublas",)}), FAKE_TTL_S)
    until(lambda: len(quiet.get("/v1/devices").json()["devices"]) == 2)
    assert quiet.get("/v1/devices").json()["devices"][0]["device"]["left_out"] == left_out
    until(lambda: quiet.get("/v1/kernels/cublas").json()["served_by"] == ["gpu-0"])
    warning = f"gpu-0 serves without all of cublas, naive. {reasons[LEFT_OUT[0]]}"
    assert quiet.get("/readyz").json()["warnings"] == [warning]
    page = quiet.get("/ui/devices").text
    assert "naive could not multiply float32: libcublasLt is &lt;old&gt;." in page

    def refused(**options: str) -> str:
        found = quiet.post("/v1/matmul", json=SEEDED | options, headers=AT_ONCE)
        return str(problem(found, 409, "no_worker_for_kernel")["detail"])

    served = "served now: cpu_blas, cublas"
    of_cublas = f"No live worker serves cublas for bfloat16; {served}. {reasons['cublas', 'bfloat16']}"
    assert refused(kernel="cublas", dtype="bfloat16") == of_cublas
    assert refused(kernel="naive") == f"No live worker serves naive; {served}. {reasons['naive', 'float32']}"
    took = [quiet.post("/v1/matmul", json=SEEDED | {"dtype": each}, headers=ASYNC) for each in ("bfloat16", "float32")]
    assert [api.ledger.get(each.json()["job"]["id"]).queue for each in took] == ["cpu", "gpu"]


def test_devices_and_figures_show_them(api: Api, quiet: httpx.Client) -> None:
    api.registry.beat(GPU, FAKE_TTL_S)
    devices = quiet.get("/v1/devices").json()["devices"]
    assert [device["id"] for device in devices] == ["gpu-0", "played"]
    assert devices[0]["device"]["compute_capability"] == [9, 0]
    quiet.post("/v1/matmul", json=SEEDED | {"kernel": "cpu_blas"}, headers=ASYNC)
    figures = quiet.get("/metrics").text
    for line in (
        'matmul_workers{device_class="gpu",state="ready"} 1.0',
        'matmul_jobs{state="queued"} 1.0',
        'matmul_queue_waiting_jobs{queue="cpu"} 1.0',
        "matmul_store_bytes 0.0",
        'matmul_http_requests_total{method="POST",route="/v1/matmul",status="202"} 1.0',
    ):
        assert f"\n{line}\n" in figures
    (age,) = (line for line in figures.splitlines() if line.startswith('matmul_queue_oldest_seconds{queue="cpu"}'))
    assert 0 < float(age.split()[1]) < 300


def test_a_worker_out_of_service_is_shown_and_gets_nothing(api: Api, quiet: httpx.Client) -> None:
    out = GPU.model_copy(update={"state": "quarantined", "reason": "Products came out <wrong> twice."})
    api.registry.beat(out, FAKE_TTL_S)
    warnings = [f"gpu-0 takes no jobs. {out.reason}"]
    assert quiet.get("/readyz").json() == {"status": "ok", "workers": 1, "warnings": warnings}
    shown = {device["id"]: (device["state"], device["reason"]) for device in quiet.get("/v1/devices").json()["devices"]}
    assert shown == {"gpu-0": (out.state, out.reason), "played": ("ready", None)}
    page = quiet.get("/ui/devices").text
    assert "It accepts no jobs: Products came out &lt;wrong&gt; twice." in page
    assert 'matmul_workers{device_class="gpu",state="quarantined"} 1.0' in quiet.get("/metrics").text.splitlines()
    job = quiet.post("/v1/matmul", json=SEEDED, headers=ASYNC).json()["job"]["id"]
    assert api.ledger.get(job).queue == "cpu"
    api.registry.gone("played")
    assert "came out <wrong> twice" in problem(quiet.get("/readyz"), 503, "no_workers")["detail"]


def test_jobs_of_a_worker_that_left_go_to_another_or_say_what_they_wait_for(
    valkey: EmbeddedServer, key_prefix: str, tmp_path: Path
) -> None:
    with running_api(valkey, key_prefix, tmp_path, sweeper=True, sweep_s=0.02, move_after_s=0.0) as api:
        api.registry.beat(GPU, FAKE_TTL_S)
        with api.client() as client:
            until(lambda: "gpu-0" in client.get("/v1/devices").text)
            auto, named = (
                client.post("/v1/matmul", json=SEEDED | {"kernel": kernel}, headers=ASYNC).json()["job"]["id"]
                for kernel in ("auto", "naive")
            )
            api.registry.gone("gpu-0")
            until(lambda: api.ledger.get(auto).queue == "cpu")
            says = "waits for a worker of the queue gpu; none is live"
            until(lambda: client.get(f"/v1/jobs/{named}").json()["progress"]["current"] == says)
            assert client.get(f"/v1/jobs/{auto}").json()["progress"]["current"] is None
