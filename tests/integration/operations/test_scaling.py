"""From no worker to some and back under load, by the rule that docker/kubernetes ships: no job is lost or run twice."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.support.scaler import Scaler, figures
from tools.harness.api import http_client
from tools.stack import Stack

JOBS, MAX_REPLICAS = 18, 2
DEADLINE_S = 120.0
SETTINGS = {
    "queue_without_workers": "always",
    "class_without_workers": "cpu",
    "cpu_threads": "1",
    "max_batch": "1",
    "sweep_s": "0.2",
    "heartbeat_s": "0.2",
    "lease_s": "60",  # on a busy machine a renewal may be late, and the job would be run twice
    "worker_ttl_s": "60",
    "redis_timeout_s": "5",
}


def submit(client: httpx.Client) -> str:
    asked = {"a": {"random": {"shape": [300, 900]}}, "b": {"random": {"shape": [900, 300]}}}
    reply = client.post("/v1/matmul", json=asked, headers={"prefer": "respond-async"})
    assert reply.status_code == 202, reply.text
    return str(reply.json()["job"]["id"])


def set_replicas(stack: Stack, live: list[subprocess.Popen[bytes]], wanted: int) -> None:
    """As a Deployment: the newest goes first, by SIGTERM, and ends when it likes."""
    while len(live) < wanted:
        live.append(stack.add_worker())
    while len(live) > wanted:
        live.pop().send_signal(signal.SIGTERM)


def test_zero_to_some_to_zero(tmp_path: Path) -> None:
    scaler = Scaler(max_replicas=MAX_REPLICAS, cooldown_s=1.0)
    live: list[subprocess.Popen[bytes]] = []
    peak, deadline = 0, time.monotonic() + DEADLINE_S
    with Stack(tmp_path, devices=(), settings=SETTINGS) as stack, http_client(stack.url) as client:
        jobs = [submit(client) for _ in range(JOBS // 2)]
        assert client.get("/readyz").status_code == 200, "a cell without workers takes jobs"
        while True:
            assert time.monotonic() < deadline, stack.logs()
            values = figures(client.get("/metrics").text, "cpu")
            wanted = scaler.wanted(values, len(live), time.monotonic())
            set_replicas(stack, live, wanted)
            peak = max(peak, len(live))
            if len(jobs) < JOBS and (not live or client.get("/v1/devices").json()["devices"]):
                jobs.append(submit(client))  # while workers come and go
            elif len(jobs) == JOBS and not live:
                break
            time.sleep(0.1)
        assert peak == MAX_REPLICAS
        for worker in stack.workers:
            assert worker.wait(timeout=DEADLINE_S) == 0, "it was drained, not killed"
        records = [client.get(f"/v1/jobs/{job}").json() for job in jobs]
        assert {record["state"] for record in records} == {"succeeded"}
        assert {record["attempt"] for record in records} == {1}, "no job was taken back"


def test_a_worker_that_has_not_begun_ends_at_once_when_it_is_told_to() -> None:
    """Its Redis does not answer yet, as where a whole cell starts, and the scaler takes it back."""
    with socket.create_server(("127.0.0.1", 0)) as redis:
        redis.settimeout(DEADLINE_S)
        own = {"redis_url": f"redis://127.0.0.1:{redis.getsockname()[1]}/0", "redis_timeout_s": "60", "lease_s": "600"}
        variables = os.environ | {f"MATMUL_{name.upper()}": value for name, value in own.items()}
        with subprocess.Popen([sys.executable, "-m", "worker"], env=variables) as worker, redis.accept()[0]:
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(timeout=DEADLINE_S) == 0
