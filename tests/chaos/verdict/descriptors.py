"""What a part of the service holds open: connections to Redis, connections of clients, and everything else.

Each has a bound of its own. A pool of connections to Redis grows to as many as were in use at one time, and stays so;
a client's connection ends with the client; nothing else should grow at all.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from service.context import MAX_THREADS
from tests.chaos.stack import APIS, ChaosStack

# Of the event loop and of threads of their own: subscriptions, the sweeper, the line that scripts go by.
BESIDE_THREADS = 8
OF_A_WORKER = 24  # parent and child have some twelve, for the broker, the ledger and the registry
MORE = 16  # files, pipes and other sockets than after the start
ARENAS = re.compile(r"pymp-\w+")  # a folder of shared memory, named anew by each process


@dataclass(frozen=True, slots=True)
class Held:
    """`others`: by the directory of a file, or by kind."""

    to_redis: int = 0
    of_clients: int = 0
    others: Counter[str] = field(default_factory=Counter)


def held(stack: ChaosStack, name: str) -> Held:
    """By a part and its children."""
    ports = [port for process in _family(stack, name) for port in _ports(process)]
    found: Counter[str] = Counter()
    for process in _family(stack, name):
        found.update(_targets(process.pid))
    to_redis = sum(remote == stack.redis_port(name) for _, remote in ports)
    of_clients = sum(own == stack.ports.get(name) and remote is not None for own, remote in ports)
    found["socket"] = max(found["socket"] - to_redis - of_clients, 0)
    for place in (stack.store, stack.store / "free"):  # slots are kept mapped, within MATMUL_STORE_FREE_BYTES
        found.pop(str(place), None)
    return Held(to_redis, of_clients, found)


def too_many(stack: ChaosStack, before: Mapping[str, Held]) -> list[str]:
    """A line for each count that is beyond its bound."""
    found = []
    for name in stack.parts:
        now = held(stack, name)
        more = now.others - before[name].others
        to_redis = MAX_THREADS + BESIDE_THREADS if name in APIS else OF_A_WORKER
        counts = (("connections to Redis", now.to_redis, to_redis), ("more descriptors", more.total(), MORE))
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


def _ports(process: psutil.Process) -> list[tuple[int, int | None]]:
    """Its own and the other's of each TCP socket; none of the latter where it listens."""
    with contextlib.suppress(psutil.Error):
        return [
            (each.laddr.port, each.raddr.port if each.raddr else None)
            for each in process.net_connections("tcp")
            if each.laddr
        ]
    return []


def _targets(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                target = os.readlink(link)
                folder = ARENAS.sub("pymp", str(Path(target).parent))
                yield folder if target.startswith("/") else target.partition(":")[0]
