"""The wall clock of a whole machine is set, of Valkey, the API and its workers at once, as after a pause or by NTP.
Their monotonic clocks go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.clocks.own_clock import Clock, compiler, own_clock
from tools.harness.api import ended, until
from tools.stack import Stack, kill_group

HOUR_S, TWO_DAYS_S = 3600, 2 * 86_400
ASYNC = {"prefer": "respond-async"}


def product(side: int) -> dict[str, Any]:
    return {name: {"random": {"shape": [side, side], "dtype": "float32"}} for name in ("a", "b")}


LONG = product(3000)  # it takes seconds


class Machine:
    """The service, and the clock of all its processes."""

    def __init__(self, stack: Stack, client: httpx.Client, clock: Clock) -> None:
        self.stack, self.client, self._clock, self._ahead_s = stack, client, clock, 0

    def step(self, seconds: int) -> None:
        self._ahead_s += seconds
        self._clock.set_ahead(self._ahead_s)

    def submit(self, asked: dict[str, Any]) -> str:
        job_id: str = self.client.post("/v1/matmul", json=asked, headers=ASYNC).raise_for_status().json()["job"]["id"]
        return job_id

    def multiply(self) -> int:
        """The status of a small product."""
        return self.client.post("/v1/matmul", json={"a": [[2]], "b": [[3]]}).status_code

    def workers(self) -> dict[int, str | None]:
        """Live workers by their process, and what they run."""
        devices = self.client.get("/v1/devices").json()["devices"]
        return {int(each["id"].rpartition("/")[2]): each["job"] for each in devices}

    def state(self, job_id: str) -> str:
        return str(self.client.get(f"/v1/jobs/{job_id}").raise_for_status().json()["state"])

    def stop_at_work(self) -> tuple[subprocess.Popen[bytes], str]:
        """A worker that is stopped while it runs a job, and the job."""
        for _ in range(10):
            job_id = self.submit(LONG)
            while (job_id not in (at_work := self.workers()).values()) and self.state(job_id) != "succeeded":
                time.sleep(0.01)
            for worker in self.stack.workers:
                if at_work.get(worker.pid) == job_id:
                    os.killpg(worker.pid, signal.SIGSTOP)
                    if self.state(job_id) == "running":
                        return worker, job_id
                    os.killpg(worker.pid, signal.SIGCONT)
        pytest.fail("no job runs for long enough")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    if compiler() is None and "CI" not in os.environ:
        pytest.skip("g++ is needed to set a machine's clock")
    # On a busy machine a worker may take long to renew its leases after a step: it has four heartbeats for that.
    settings = {"cpu_threads": "1", "redis_timeout_s": "5", "heartbeat_s": "2", "lease_s": "12"}
    with own_clock(tmp_path / "clock") as clock, pytest.MonkeyPatch.context() as patch:
        for name, value in clock.environment.items():
            patch.setenv(name, value)
        with (
            Stack(tmp_path, devices=("cpu", "cpu"), settings=settings) as stack,
            httpx.Client(base_url=stack.url, timeout=60.0) as client,
        ):
            yield Machine(stack, client, clock)


@pytest.mark.skipif(sys.platform != "linux", reason="it preloads a library")
def test_no_job_is_lost_stuck_or_run_twice_however_the_clock_is_set(machine: Machine) -> None:
    jobs = [machine.submit(LONG) for _ in range(4)]
    jobs.append(machine.submit({name: {"job": jobs[-1]} for name in ("a", "b")}))
    for seconds in (68, HOUR_S, -68, -HOUR_S, TWO_DAYS_S):
        machine.step(seconds)
        until(lambda: machine.multiply() == 200)  # for a moment there may be no live worker
    records = [ended(machine.client, job_id) for job_id in jobs]
    assert {(record["state"], record["attempt"]) for record in records} == {("succeeded", 1)}
    assert min(record["timing"]["queue_ms"] for record in records) >= 0

    # A worker that dies just before the clock is set back keeps its job no longer, and counts as live no longer.
    dead, job_id = machine.stop_at_work()
    kill_group(dead)
    machine.step(-TWO_DAYS_S)
    assert ended(machine.client, job_id)["state"] == "succeeded"
    until(lambda: dead.pid not in machine.workers())
    assert machine.multiply() == 200
    figures = machine.client.get("/metrics").raise_for_status().text
    assert not [line for line in figures.splitlines() if line[0] != "#" and line.rpartition(" ")[2].startswith("-")]
    assert {machine.client.get(page).status_code for page in ("/", "/ui/jobs", f"/ui/jobs/{job_id}")} == {200}
