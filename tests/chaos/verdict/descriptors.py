"""What a part of the service holds open: connections to Redis and to the object store, connections of clients, and
everything else.

Each has a bound of its own. A pool of connections to Redis grows to as many as were in use at one time, and stays so;
a client's connection ends with the client; nothing else should grow at all.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from service.context import MAX_THREADS
from tests.chaos.layout import APIS
from tests.chaos.stack import ChaosStack

# Beside the threads that requests have: those that anyio lends for other blocking work, such as to give up an upload,
# and connections of the event loop and of the sweeper.
BESIDE_THREADS = 40 + 8
OF_A_WORKER = 24  # parent and child have some twelve, for the broker, the ledger and the registry
TO_OBJECTS = MAX_THREADS + BESIDE_THREADS  # kept for the next request, as many as were in use at a time
MORE = 16  # files, pipes and other sockets than after the start
MORE_OF_A_GPU = 64  # the driver opens a GPU's nodes again for what is used of it for the first time
ARENAS = re.compile(r"pymp-\w+")  # a folder of shared memory, named anew by each process


@dataclass(frozen=True, slots=True)
class Held:
    """`others`: by the directory of a file, or by kind."""

    to_redis: int = 0  # with those that were reset
    to_objects: int = 0
    of_clients: int = 0
    others: Counter[str] = field(default_factory=Counter)


def held(stack: ChaosStack, name: str) -> Held:
    """By a part and its children."""
    ports: list[tuple[int, int | None]] = []
    found: Counter[str] = Counter()
    reset = 0
    for process in _family(stack, name):
        targets = Counter(_targets(process.pid))
        known = _sockets(process)
        ports += _ports(known)
        # What the other end reset is in no table of the system. A pool keeps it until it is used; a server does not.
        reset += max(targets["socket"] - len(known), 0)
        found += targets
    to_redis = sum(remote == stack.redis_port(name) for _, remote in ports) + reset
    of_clients = sum(own == stack.ports.get(name) and remote is not None for own, remote in ports)
    to_objects = sum(remote is not None and remote == stack.objects_port(name) for _, remote in ports)
    found["socket"] = max(found["socket"] - to_redis - to_objects - of_clients, 0)
    for store in stack.stores:  # slots are kept mapped, within MATMUL_STORE_FREE_BYTES
        for place in (store, store / "free"):
            found.pop(str(place), None)
    return Held(to_redis, to_objects, of_clients, found)


def too_many(stack: ChaosStack, before: Mapping[str, Held]) -> list[str]:
    """A line for each count that is beyond its bound."""
    found = []
    for name in stack.parts:
        now = held(stack, name)
        more = now.others - before[name].others
        to_redis = MAX_THREADS + BESIDE_THREADS if name in APIS else OF_A_WORKER
        more_than = MORE if stack.layout.device_of(name) == "cpu" else MORE_OF_A_GPU
        counts = [("connections to Redis", now.to_redis, to_redis), ("more descriptors", more.total(), more_than)]
        if stack.objects_port(name) is not None:
            counts.append(("connections to the object store", now.to_objects, TO_OBJECTS))
        for what, count, bound in counts:
            stack.margins.note(f"{what}, {'API' if name in APIS else 'worker'}", count, bound)
            if count > bound:
                found.append(f"{name} has {count} {what}, not {bound} at most: {dict(more)}")
    return found


def _family(stack: ChaosStack, name: str) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(stack.parts[name].pid)
        return [process, *process.children(recursive=True)]
    return []


def _sockets(process: psutil.Process) -> list[Any]:
    """Those that the system has in its tables, of any kind."""
    with contextlib.suppress(psutil.Error):
        return list(process.net_connections("all"))
    return []


def _ports(sockets: Sequence[Any]) -> list[tuple[int, int | None]]:
    """Its own and the other's of each TCP socket; none of the latter where it listens."""
    return [
        (each.laddr.port, each.raddr.port if each.raddr else None)
        for each in sockets
        if each.type == socket.SOCK_STREAM and each.family != socket.AF_UNIX and each.laddr
    ]


def _targets(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                target = os.readlink(link)
                folder = ARENAS.sub("pymp", str(Path(target).parent))
                yield folder if target.startswith("/") else target.partition(":")[0]
