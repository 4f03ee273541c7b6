"""What the service takes of its host at a moment: memory and descriptors of each process, Redis, the store."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import redis

from tools.stack import Stack

TRACKER = "resource_tracker"  # multiprocessing's own process, which keeps nothing of ours


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """`own_kib`: anonymous memory, also where it is swapped out. A page that parent and child share since the fork
    counts for both: written to, it is copied, which adds to what the two take, but ends with the pages that there were
    then and is no growth of either. `rss_kib` has mapped files and shared memory too, and no swap."""

    own_kib: int
    rss_kib: int
    descriptors: int


@dataclass(frozen=True, slots=True)
class Sample:
    """`at_s` from the start of the run. `processes`: by name; one that ended is missing."""

    at_s: float
    jobs: int
    processes: Mapping[str, ProcessSample]
    redis_kib: int
    keys: int
    files: int
    files_kib: int


def processes_of(stack: Stack) -> dict[str, psutil.Process]:
    """By name. Of several API processes the first one only keeps the others running."""
    assert stack.api is not None
    apis = _children(stack.api.pid)
    found = {f"API {i}": each for i, each in enumerate(apis)} | {"API's parent": psutil.Process(stack.api.pid)}
    if not apis:
        found = {"API": psutil.Process(stack.api.pid)}
    for i, worker in enumerate(stack.workers):
        found[f"worker {i}"] = psutil.Process(worker.pid)
        found |= {f"worker {i}'s child": child for child in _children(worker.pid)}
    return found


def _children(pid: int) -> list[psutil.Process]:
    return [each for each in psutil.Process(pid).children() if TRACKER not in " ".join(each.cmdline())]


def sample(at_s: float, jobs: int, processes: Mapping[str, psutil.Process], client: redis.Redis, store: Path) -> Sample:
    """Raises redis.RedisError."""
    found = {}
    for name, process in processes.items():
        with contextlib.suppress(psutil.Error, OSError):  # it ended
            found[name] = sample_of(process)
    memory: Any = client.info("memory")
    keys: Any = client.dbsize()
    sizes = list(_sizes(store))
    return Sample(at_s, jobs, found, int(memory["used_memory"]) // 1024, int(keys), len(sizes), sum(sizes) // 1024)


def sample_of(process: psutil.Process) -> ProcessSample:
    if not process.is_running():  # also where another one has its number now
        raise psutil.NoSuchProcess(process.pid)
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]
    kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return ProcessSample(kib["Anonymous"] + kib["Swap"], kib["Rss"], process.num_fds())


def _sizes(store: Path) -> list[int]:
    """In bytes, of each file of the store; free slots are in folders of their own."""
    found = []
    with os.scandir(store) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.is_file():
                    found.append(entry.stat().st_size)
    return found
