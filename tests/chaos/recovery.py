"""Measures how long a job whose worker is killed takes to run again: `python -m tests.chaos.recovery --kills 200`.

Starts the whole service as processes, lets it multiply, kills what runs the job and reads from the job's record when it
ran again, by Redis' clock: the child alone, with one worker and with two, and a whole worker with its child, where
another lives. Each job must succeed in its second run. Writes `recovery_<date>.json`.

    python -m tests.chaos.recovery --kills 200 --device gpu:0 --size 8192 --out benchmarks/results
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import httpx
import redis

from jobs.redis.client import connect
from jobs.settings import Settings
from tools.stack import Stack, kill_child
from worker.cpu.environment import dated_environment

PACKAGES = ("celery", "numpy", "redis", "cupy-cuda13x")
HOST_KILLS = 10  # children that are killed for each whole worker that is: its job waits for the lease
LOOK_EVERY_S = 0.002
PATIENCE_S = 120.0

Killed = Literal["child", "worker"]


@dataclass
class Recovery:
    """One stack, and jobs of `size`³ on it."""

    stack: Stack
    client: httpx.Client
    redis: redis.Redis
    size: int

    def job(self) -> str:
        operand = {"random": {"shape": [self.size, self.size], "seed": 1}}
        reply = self.client.post("/v1/matmul", json={"a": operand, "b": operand}, headers={"Prefer": "respond-async"})
        assert reply.status_code == 202, reply.text
        return str(reply.json()["job"]["id"])

    def record(self, job: str) -> tuple[str, int, int, str]:
        """State, attempt, when it started (microseconds), worker."""
        found: Any = self.redis.hmget(f"{Settings().key_prefix}job:{job}", ["state", "attempt", "started", "worker"])
        state, attempt, started, worker = found
        return state.decode(), int(attempt), int(started or 0), (worker or b"").decode()

    def until(self, job: str, state: str, attempt: int) -> tuple[int, str]:
        """When it started, and where, once it is in that state of that attempt, or further. Raises TimeoutError."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            now, tried, started, worker = self.record(job)
            if tried > attempt or (tried == attempt and now in (state, "succeeded")):
                return started, worker
            assert now not in ("failed", "cancelled"), self.client.get(f"/v1/jobs/{job}").text
            time.sleep(LOOK_EVERY_S)
        raise TimeoutError(f"{job} is {self.record(job)}\n{self.stack.logs()}")

    def seconds(self, killed: Killed) -> float | None:
        """From the kill until the job ran again; None where it was done before."""
        job = self.job()
        _, worker = self.until(job, "running", 1)
        parent = int(worker.rpartition("/")[2])
        server_time: tuple[int, int] = self.redis.time()
        if killed == "child":
            kill_child(parent)
        else:
            self.stack.restart_worker([each.pid for each in self.stack.workers].index(parent))
        if self.record(job)[0] == "succeeded":
            return None
        started, _ = self.until(job, "running", 2)
        self.until(job, "succeeded", 2)
        if killed == "worker":
            self.stack.wait_until_ready()
        return (started - server_time[0] * 10**6 - server_time[1]) / 1e6


def measured(device: str, workers: int, killed: Killed, kills: int, size: int) -> dict[str, Any]:
    """A row of the record."""
    with TemporaryDirectory() as directory, Stack(Path(directory), devices=(device,) * workers) as stack:
        settings = Settings.model_validate({"redis_url": stack.redis.url})
        with httpx.Client(base_url=stack.url, timeout=30) as client, connect(settings) as server:
            recovery = Recovery(stack, client, server, size)
            name = client.get("/v1/devices").json()["devices"][0]["device"]["name"]
            seconds: list[float] = []
            while len(seconds) < kills:
                if (taken := recovery.seconds(killed)) is not None:
                    seconds.append(taken)
    ordered = sorted(seconds)
    return {
        "killed": killed,
        "workers": workers,
        "device": name,
        "kills": kills,
        "p50_s": round(statistics.median(ordered), 4),
        "p99_s": round(ordered[math.ceil(0.99 * kills) - 1], 4),
        "max_s": round(ordered[-1], 4),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.recovery", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--kills", type=int, default=200, help="of children, with one worker and again with two")
    parser.add_argument("--device", default="cpu", help="of all workers")
    parser.add_argument("--size", type=int, default=1200, help="of the products, which must outlast a kill")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    given = parser.parse_args(arguments)
    runs: tuple[tuple[int, Killed, int], ...] = (
        (1, "child", given.kills),
        (2, "child", given.kills),
        (2, "worker", math.ceil(given.kills / HOST_KILLS)),
    )
    rows = []
    for workers, killed, kills in runs:
        rows.append(measured(given.device, workers, killed, kills, given.size))
        print(json.dumps(rows[-1]), flush=True)
    record = {"environment": dated_environment(*PACKAGES), "size": given.size, "recovery": rows}
    path = given.out / f"recovery_{datetime.now(UTC):%Y-%m-%d}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(path)


if __name__ == "__main__":
    main()
