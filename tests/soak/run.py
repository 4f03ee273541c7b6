"""One run: a service of real processes, callers in processes of their own, and samples of what the service takes."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil
import redis

from jobs.fleet.registry import WorkerRegistry
from jobs.ledger.totals import totals_of
from service.keys.line import make_key
from tests.soak.sample import Sample, processes_of, sample
from tests.soak.traffic import Share, Tally, talk
from tests.soak.verdict import Verdict, judge
from tools.stack import START_TIMEOUT_S, Stack

PREFIX = "matmul:"
KEYS = 3
SETTLE_S = 20.0  # after the last answer, for jobs that nobody waited for

_begun: list[Any] = []  # in a process of callers: counts the conversations of all of them


@dataclass(frozen=True, slots=True)
class Asked:
    """`ended_jobs`: how many the service keeps, so that Redis is full of them early."""

    conversations: int
    for_s: float
    warm_up_s: float
    sample_s: float
    api_processes: int
    workers: int
    client_processes: int
    threads: int
    ended_jobs: int


@dataclass(frozen=True, slots=True)
class Outcome:
    asked: Asked
    tally: Tally
    samples: list[Sample]
    verdict: Verdict
    ended: int  # jobs, by the ledger
    seconds: float

    @property
    def lost(self) -> int:
        """Accepted jobs less those that ended."""
        return self.tally.jobs - self.ended

    @property
    def passed(self) -> bool:
        return not (self.tally.wrong or self.lost or self.verdict.growing or self.verdict.ended)


class SoakStack(Stack):
    """With API keys, so that owners take turns."""

    def __init__(self, directory: Path, asked: Asked) -> None:
        pepper = secrets.token_hex(16)
        made = [make_key(f"caller {i}", pepper.encode()) for i in range(KEYS)]
        self.keys = [each.key for each in made]
        self.store = directory / "matrices"
        settings = {
            "auth": "on",
            "api_keys": " ".join(each.line for each in made),
            "api_key_pepper": pepper,
            "api_processes": str(asked.api_processes),
            "max_ended_jobs": str(asked.ended_jobs),
            "max_ended_jobs_per_key": str(asked.ended_jobs),
            "cpu_threads": "1",
            "log_level": "warning",
        }
        super().__init__(directory, devices=("cpu",) * asked.workers, settings=settings)

    def wait_until_ready(self) -> None:
        """Returns once every worker is live and the API answers. Raises TimeoutError."""
        deadline = time.monotonic() + START_TIMEOUT_S
        with self.redis.client() as client:
            fleet = WorkerRegistry(client, prefix=PREFIX)
            while time.monotonic() < deadline:
                if len(fleet.live()) >= len(self.workers) and _answers(self.api_port):
                    return
                time.sleep(0.05)
        raise TimeoutError(f"the stack was not ready in {START_TIMEOUT_S:.0f} s\n{self.logs()}")


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def run(asked: Asked, directory: Path) -> Outcome:
    """In a directory that is empty."""
    with SoakStack(directory, asked) as stack, stack.redis.client(timeout_s=10.0) as client:
        began = time.monotonic()
        tally, samples = _drive(asked, stack, client, began)
        ended = _wait_for_ends(client, tally.jobs)
        seconds = time.monotonic() - began
        return Outcome(asked, tally, samples, judge(samples, asked.warm_up_s), ended, seconds)


def _drive(asked: Asked, stack: SoakStack, client: redis.Redis, began: float) -> tuple[Tally, list[Sample]]:
    """Samples are taken while callers talk; the last one before they end."""
    spawn = get_context("spawn")
    begun = spawn.Value("Q", 0)
    processes = processes_of(stack)
    samples: list[Sample] = []
    with ProcessPoolExecutor(asked.client_processes, spawn, initializer=_share_count, initargs=(begun,)) as pool:
        pending = [pool.submit(_talk, share) for share in _shares(asked, stack, began)]
        while not any(each.done() for each in pending):
            samples.append(_sample(began, begun.value, processes, client, stack.store))
            if len(samples) % 30 == 1:
                _tell(samples[-1])
            time.sleep(asked.sample_s)
        return _total(pending), samples


def _shares(asked: Asked, stack: SoakStack, began: float) -> list[Share]:
    n = asked.client_processes
    share = Share(stack.api_port, stack.keys, 0, n, 0, asked.threads, began + asked.for_s)
    return [replace(share, first=i, conversations=len(range(i, asked.conversations, n))) for i in range(n)]


def _share_count(begun: Any) -> None:
    _begun.append(begun)


def _talk(share: Share) -> Tally:
    def count() -> None:
        for begun in _begun:
            with begun.get_lock():
                begun.value += 1

    return talk(share, count)


def _total(pending: Sequence[Future[Tally]]) -> Tally:
    total = Tally()
    for each in pending:
        total.add(each.result())
    return total


def _sample(
    began: float, conversations: int, processes: dict[str, psutil.Process], client: redis.Redis, store: Path
) -> Sample:
    return sample(round(time.monotonic() - began, 1), conversations, processes, client, store)


def _tell(last: Sample) -> None:
    own = {name: f"{each.own_kib / 1024:.1f}" for name, each in last.processes.items()}
    print(f"{last.at_s:.0f} s: {last.jobs} conversations, {last.keys} keys, {last.files} files, MiB {own}", flush=True)


def _wait_for_ends(client: redis.Redis, jobs: int) -> int:
    """How many jobs ended, once all have or SETTLE_S are over."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        ended = sum(totals_of(client, PREFIX).ended.values())
        if ended >= jobs or time.monotonic() > deadline:
            return ended
        time.sleep(0.2)
