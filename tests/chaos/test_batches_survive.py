"""Children of workers are killed in the middle of batches of small jobs: every job ends, and every product is its own.

Operands are small integers drawn for each job, so a wrong, stale or swapped product differs in whole numbers.
"""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import pytest
from safetensors.numpy import load, save

from tests.support.workers.workers import until
from tools.stack import Stack, kill_child

pytestmark = pytest.mark.chaos

CALLERS, JOBS_EACH = 16, 60
KILL_EVERY_JOBS = 200
SHAPES = ((8, 8, 8), (16, 16, 16), (5, 7, 9))  # m, k, n
SEED = random.SystemRandom().randrange(2**32)


@dataclass
class Run:
    """What callers met."""

    stack: Stack
    right: int = 0
    wrong: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    kills: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ended(self, job: str, *, is_right: bool, batch: int) -> None:
        """Every so many jobs the child that computes is killed, whatever it is at."""
        with self.lock:
            self.right += is_right
            self.batches.append(batch)
            if not is_right:
                self.wrong.append(job)
            if len(self.batches) % KILL_EVERY_JOBS == 0:
                self.kills += kill_child(self.stack.workers[0].pid)


def caller(run: Run, number: int) -> None:
    rng = np.random.default_rng([SEED, number])
    with httpx.Client(base_url=run.stack.url, timeout=90, verify=False) as client:
        for _ in range(JOBS_EACH):
            m, k, n = SHAPES[rng.integers(len(SHAPES))]
            a, b = (rng.integers(-99, 100, shape).astype(np.float32) for shape in ((m, k), (k, n)))
            headers = {"content-type": "application/x-safetensors", "accept": "application/x-safetensors"}
            reply = client.post("/v1/matmul", content=save({"a": a, "b": b}), headers=headers | {"prefer": "wait=60"})
            assert reply.status_code == 200, reply.text
            job = reply.headers["location"]
            record = client.get(job).json()
            run.ended(job, is_right=np.array_equal(load(reply.content)["c"], a @ b), batch=record["batch"])


def test_every_job_of_a_batch_ends_right_though_its_worker_dies(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    with Stack(tmp_path, settings={"max_attempts": "9", "lease_s": "1.5", "heartbeat_s": "0.2"}) as stack:
        run = Run(stack)
        with ThreadPoolExecutor(CALLERS) as pool:
            list(pool.map(lambda number: caller(run, number), range(CALLERS)))
        assert run.wrong == [] and run.right == CALLERS * JOBS_EACH
        assert run.kills >= 2
        assert max(run.batches) > 1, "no two jobs were ever computed together"
        with httpx.Client(base_url=stack.url, verify=False) as client:
            until(lambda: not unended(client), timeout_s=30, what="the end of all jobs")


def unended(client: httpx.Client) -> list[str]:
    replies = [client.get("/v1/jobs", params={"state": state}) for state in ("queued", "running")]
    return [job["id"] for reply in replies for job in reply.json()["jobs"]]
