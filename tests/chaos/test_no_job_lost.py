"""Workers, API and Redis are killed while jobs run: none is lost, none is wrong, none is done twice.

Each job multiplies small integers that hold its own number, so a lost, swapped or stale product shows bit for bit.
A positive control comes first: with the sweeper off the same faults must lose jobs, else the test could not fail.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jobs.queue import make_ledger
from jobs.settings import Settings
from tools.played.api import http_client
from tools.stack import Stack, kill_child

pytestmark = pytest.mark.chaos

JOBS = 2500
CONTROL_JOBS = 400
CLIENTS = 6
FAULT_EVERY_S = 1.5
SEED = random.SystemRandom().randrange(2**32)
# Dealt in a random order, all of them before any comes again.
FAULTS = ("worker",) * 4 + ("child", "api", "redis") * 2 + ("frozen redis",)
END = ("succeeded", "failed", "cancelled")


@dataclass
class Run:
    """What the clients were told, and what was done to the service meanwhile."""

    stack: Stack
    accepted: dict[int, str] = field(default_factory=dict)  # job number: job id
    faults: list[str] = field(default_factory=list)
    submitting: threading.Event = field(default_factory=threading.Event)


def operands(number: int) -> tuple[list[list[int]], list[list[int]]]:
    return [[number, 1], [2, number % 97]], [[1, 3], [number % 89, 5]]


def product(number: int) -> list[list[int]]:
    a, b = operands(number)
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]


def call(url: str, headers: dict[str, str], body: bytes | None = None) -> Any:
    request = urllib.request.Request(url, body, headers)
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.loads(reply.read())


def call_until_answered(url: str, headers: dict[str, str], body: bytes | None = None, deadline_s: float = 120.0) -> Any:
    """Tries again while the service is down or says so; anything else it says is a failure of the test."""
    deadline = time.monotonic() + deadline_s
    while True:
        try:
            return call(url, headers, body)
        except urllib.error.HTTPError as error:
            if error.code not in (409, 429, 503) or time.monotonic() > deadline:
                raise AssertionError(f"{error.code}: {error.read().decode()}") from error
        except (OSError, http.client.HTTPException):  # cut off before the answer, or within it
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def submit(run: Run, numbers: range) -> None:
    """Each number once, under its own Idempotency-Key, so that a retry after a cut connection makes no second job."""
    for number in numbers:
        a, b = operands(number)
        body = json.dumps({"a": a, "b": b, "dtype": "int32"}).encode()
        headers = {
            "Content-Type": "application/json",
            "Prefer": "respond-async",
            "Idempotency-Key": f"chaos-{number}",
        }
        reply = call_until_answered(f"{run.stack.url}/v1/matmul", headers, body)
        run.accepted[number] = reply["job"]["id"]


def fault(run: Run, kind: str, rng: random.Random) -> None:
    run.faults.append(kind)
    if kind == "worker":
        run.stack.restart_worker(rng.randrange(len(run.stack.workers)))
    elif kind == "child":
        kill_child(run.stack.workers[rng.randrange(len(run.stack.workers))].pid)
    elif kind == "api":
        run.stack.restart_api()
    elif kind == "redis":
        run.stack.restart_redis()
    else:
        os.kill(run.stack.redis.pid, signal.SIGSTOP)
        time.sleep(rng.uniform(0.5, 2.0))
        os.kill(run.stack.redis.pid, signal.SIGCONT)


def torment(run: Run, seed: int, at_least: frozenset[str]) -> None:
    """While jobs are submitted, and until there was a fault of these kinds."""
    rng = random.Random(seed)
    while run.submitting.is_set():
        for kind in rng.sample(FAULTS, len(FAULTS)):
            time.sleep(rng.uniform(0.5, 1.5) * FAULT_EVERY_S)
            if not run.submitting.is_set() and at_least <= set(run.faults):
                return
            fault(run, kind, rng)


def drive(run: Run, jobs: int, seed: int, at_least: frozenset[str] = frozenset()) -> None:
    run.submitting.set()
    step = -(-jobs // CLIENTS)
    clients = [
        threading.Thread(target=submit, args=(run, range(start, min(start + step, jobs))))
        for start in range(0, jobs, step)
    ]
    tormentor = threading.Thread(target=torment, args=(run, seed, at_least))
    for thread in (*clients, tormentor):
        thread.start()
    for thread in clients:
        thread.join()
    run.submitting.clear()
    tormentor.join()


def states(run: Run) -> dict[str, dict[str, Any]]:
    """Every job the service knows, by paging through the list."""
    jobs: dict[str, dict[str, Any]] = {}
    cursor = ""
    while True:
        page = call_until_answered(f"{run.stack.url}/v1/jobs?limit=200{cursor}", {})
        jobs |= {job["id"]: job for job in page["jobs"]}
        if page["next"] is None:
            return jobs
        cursor = f"&cursor={page['next']}"


def settled(run: Run, deadline_s: float) -> dict[str, dict[str, Any]]:
    """The jobs once all are at their end, or at the deadline."""
    deadline = time.monotonic() + deadline_s
    while True:
        jobs = states(run)
        if all(job["state"] in END for job in jobs.values()) or time.monotonic() > deadline:
            return jobs
        time.sleep(0.5)


def wrong_products(run: Run, succeeded: Mapping[int, str]) -> list[Any]:
    """Over one connection, for there are thousands."""
    wrong = []
    with http_client(run.stack.url, accept="application/json") as client:
        for number, job in succeeded.items():
            got = client.get(f"/v1/jobs/{job}/product").raise_for_status().json()
            if got["c"] != product(number):
                wrong.append((number, got))
    return wrong


def done_twice(run: Run, succeeded: Iterable[str]) -> list[str]:
    """Jobs with any number of successful ends but one."""
    with run.stack.redis.client() as client:
        ledger = make_ledger(Settings(), client)
        ends = {job: [event.event for event in ledger.events(job)] for job in succeeded}
    return [job for job, events in ends.items() if events.count("succeeded") != 1]


def kill_workers_at_work(run: Run) -> None:
    """So that at the least one job is lost: some that take a moment, and SIGKILL to all workers while one runs."""
    square = {"random": {"shape": [2048, 2048]}}
    body = json.dumps({"a": square, "b": square}).encode()
    headers = {"Content-Type": "application/json", "Prefer": "respond-async"}
    for _ in range(8):
        call_until_answered(f"{run.stack.url}/v1/matmul", headers, body)
    deadline = time.monotonic() + 60.0
    while not call_until_answered(f"{run.stack.url}/v1/jobs?state=running", {})["jobs"]:
        assert time.monotonic() < deadline, f"no job runs\n{run.stack.logs()}"
    for index in range(len(run.stack.workers)):
        run.stack.restart_worker(index)


def test_the_control_loses_jobs_without_the_sweeper(tmp_path: Path) -> None:
    with Stack(tmp_path, devices=("cpu", "cpu"), settings={"sweeper": "false"}) as stack:
        run = Run(stack)
        drive(run, CONTROL_JOBS, SEED)
        kill_workers_at_work(run)
        jobs = settled(run, deadline_s=12)
    unfinished = [job for job in jobs.values() if job["state"] not in END]
    print(f"seed {SEED}: faults {run.faults}; {len(unfinished)} of {CONTROL_JOBS} jobs never ended without the sweeper")
    assert unfinished, "the faults lost no job, so the test below could not fail"


def test_no_job_is_lost_wrong_or_done_twice(tmp_path: Path) -> None:
    with Stack(tmp_path, devices=("cpu", "cpu")) as stack:
        run = Run(stack)
        drive(run, JOBS, SEED, at_least=frozenset(FAULTS))
        jobs = settled(run, deadline_s=120)
        print(f"seed {SEED}: {len(run.faults)} faults: {run.faults}")
        lost = [job for job in run.accepted.values() if job not in jobs or jobs[job]["state"] not in END]
        assert not lost, f"{len(lost)} lost, such as {jobs.get(lost[0])}\n{stack.logs()}"
        assert set(jobs) == set(run.accepted.values()), "jobs that nobody was told of"
        failed = [job for job in jobs.values() if job["state"] != "succeeded" and job["error"]["type"] != "worker_lost"]
        assert not failed, failed[:3]
        succeeded = {number: job for number, job in run.accepted.items() if jobs[job]["state"] == "succeeded"}
        wrong, twice = wrong_products(run, succeeded), done_twice(run, succeeded.values())
        assert not wrong, wrong[:3]
        assert not twice, twice[:3]
