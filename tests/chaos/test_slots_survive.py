"""Workers and the API are killed while large products go through: no caller gets another's bytes, no memory is lost.

Each caller deletes what it has read, so the memory of one matrix is another's a moment later.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import pytest
from safetensors.numpy import load, save

from jobs.matrices.file_store import LOOK_ROUND_S, SLOT_LEFTOVER_AGE_S
from jobs.redis.client import connect
from jobs.settings import Settings
from tests.support.stores import FREE_BYTES
from tools.stack import Stack

pytestmark = pytest.mark.chaos

CALLERS = 4
FAULTS, FAULT_EVERY_S = 10, 2.0
SIDE = 300  # of int32: 360 kB
SEED = random.SystemRandom().randrange(2**32)


@dataclass
class Run:
    """What callers met."""

    stack: Stack
    right: int = 0
    wrong: list[str] = field(default_factory=list)
    goes_on: threading.Event = field(default_factory=threading.Event)


def call(run: Run, number: int, client: httpx.Client) -> None:
    """One product, read once it is deleted as well as before. Raises HTTPError where the service is cut off."""
    rng = np.random.default_rng(number)
    a, b = (rng.integers(-9, 10, (SIDE, SIDE), np.int32) for _ in range(2))
    headers = {"content-type": "application/x-safetensors", "prefer": "wait=20"}
    reply = client.post("/v1/matmul", content=save({"a": a, "b": b}), headers=headers)
    if reply.status_code != 200:
        return  # it was given up on, or still runs: its memory goes with its time
    job = reply.headers["location"]
    with client.stream("GET", f"{job}/product") as again:
        pieces = again.iter_bytes(1 << 16)
        first = next(pieces)
        client.delete(job).raise_for_status()
        late = b"".join([first, *pieces])
    for body in (reply.content, late):
        if not np.array_equal(load(body)["c"], a @ b):
            run.wrong.append(job)
    run.right += 1


def callers(run: Run, first: int) -> None:
    number = first
    while run.goes_on.is_set():
        number += CALLERS
        try:
            accept = {"accept": "application/x-safetensors"}
            with httpx.Client(base_url=run.stack.url, timeout=30, headers=accept, verify=False) as client:
                call(run, number, client)
        except httpx.HTTPError:
            time.sleep(0.1)  # it is being started again


def torment(run: Run, rng: random.Random) -> None:
    for _ in range(FAULTS):
        time.sleep(rng.uniform(0.5, 1.5) * FAULT_EVERY_S)
        if rng.random() < 0.3:
            run.stack.restart_api()
        else:
            run.stack.restart_worker(rng.randrange(len(run.stack.workers)))


def lost(stack: Stack, directory: Path) -> list[str]:
    """Files that are neither matrices in the books nor free slots."""
    client = connect(Settings(redis_url=stack.redis.url))
    names = [path.name for path in directory.iterdir() if path.is_file()]
    known = {name for name in names if client.exists(f"matmul:matrix:{name}")}
    client.close()
    return [name for name in names if name not in known]


def test_no_bytes_are_another_s_and_no_memory_is_lost(tmp_path: Path) -> None:
    settings = {"store_free_bytes": str(FREE_BYTES), "jobs_under_way": "3"}
    directory = tmp_path / "matrices"
    with Stack(tmp_path, devices=("cpu", "cpu"), settings=settings) as stack:
        run = Run(stack)
        run.goes_on.set()
        threads = [threading.Thread(target=callers, args=(run, first)) for first in range(CALLERS)]
        for thread in threads:
            thread.start()
        torment(run, random.Random(SEED))
        stack.wait_until_ready()
        run.goes_on.clear()
        for thread in threads:
            thread.join()
        print(f"seed {SEED}: {run.right} products were right")
        assert not run.wrong, (run.wrong[:3], stack.logs())
        assert run.right > FAULTS, stack.logs()
        deadline = time.monotonic() + 2 * LOOK_ROUND_S + SLOT_LEFTOVER_AGE_S
        while [name for name in lost(stack, directory) if name.endswith(".slot")] and time.monotonic() < deadline:
            time.sleep(1)
        assert not [name for name in lost(stack, directory) if name.endswith(".slot")]
        assert sum(path.stat().st_size for path in (directory / "free").iterdir()) <= FREE_BYTES
