"""What a run must not leave behind: keys in Redis, files in the store, processes, descriptors, connections."""

from __future__ import annotations

import re
import socket
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import redis

from jobs.fleet.places import IDENTITY
from jobs.matrices.file_store import LEFTOVER_AGE_S, LOOK_ROUND_S, SLOT_LEFTOVER_AGE_S
from service.context import MAX_THREADS
from tests.chaos.stack import APIS, PREFIX, RECEIVE_TIMEOUT_S, ChaosStack

# Of what jobs under way have, nothing is to be there once none is.
OF_UNENDED = re.compile(
    rf"{PREFIX}(leases|unsettled|queued:.*|backlog:.*|window:.*|batch:.*|hold:.*|job:[^:]*:dependents|broker:(cpu|gpu|bench-.*))"
)
LET_GO_S = 20.0
# More descriptors than after the start. An API's pool keeps a connection to Redis for each thread that ever needed one.
MORE = 32
MORE_OF_AN_API = MORE + MAX_THREADS
CUT_OFF_S = 3 * RECEIVE_TIMEOUT_S


Descriptors = Mapping[str, Counter[str]]  # by part


def left_behind(stack: ChaosStack, client: redis.Redis, descriptors: Descriptors) -> dict[str, list[str]]:
    """By kind, a line each. `descriptors`: how many each part had after its start. Every job has ended, and every
    caller is gone; the service still runs, and is stopped by this."""
    return {
        "keys": _keys(stack, client),
        "files": _files(stack, client),
        "connections": _connections(stack),
        "descriptors": _descriptors(stack, descriptors),
        "processes": _processes(stack),
    }


def _keys(stack: ChaosStack, client: redis.Redis) -> list[str]:
    """A holder of an Idempotency-Key lets it go a moment after its answer."""
    deadline = time.monotonic() + LET_GO_S
    while (left := _keys_of_unended(client)) and time.monotonic() < deadline:
        time.sleep(0.5)
    return left


def _keys_of_unended(client: redis.Redis) -> list[str]:
    names = (key.decode(errors="replace") for key in client.scan_iter(f"{PREFIX}*", count=5000))
    return [name for name in names if OF_UNENDED.fullmatch(name)]


def _files(stack: ChaosStack, client: redis.Redis) -> list[str]:
    """Files that are neither matrices in the books nor free, and so old that they should have been swept."""
    kept = {value.decode() for value in _data_names(client)} | {IDENTITY}
    now, found = time.time(), []
    for path in stack.store.iterdir():
        due_s = 2 * LOOK_ROUND_S + (SLOT_LEFTOVER_AGE_S if path.suffix == ".slot" else LEFTOVER_AGE_S)
        if path.is_file() and path.name not in kept and now - path.stat().st_mtime > due_s:
            found.append(f"{path.name}, {path.stat().st_size} bytes")
    return found


def _data_names(client: redis.Redis) -> list[bytes]:
    keys = list(client.scan_iter(f"{PREFIX}matrix:*", count=5000))
    with client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.hget(key, "data")
        data: list[Any] = pipe.execute()
    return [each for each in data if each] + [key.rpartition(b":")[2] for key in keys]


def _connections(stack: ChaosStack) -> list[str]:
    """Clients that neither read nor finished and still are connected."""
    deadline = time.monotonic() + CUT_OFF_S
    left = list(stack.slow_clients)
    while left and time.monotonic() < deadline:
        left = [each for each in left if _is_open(each)]
        time.sleep(0.2)
    for each in stack.slow_clients:
        each.close()
    return [f"{len(left)} clients were not cut off"] if left else []


def _is_open(client: socket.socket) -> bool:
    """Reads what was sent up to the end; what the system holds back would hide that."""
    client.settimeout(0.01)
    try:
        return bool(client.recv(1 << 20))
    except TimeoutError:
        return True
    except OSError:
        return False


def _descriptors(stack: ChaosStack, before: Descriptors) -> list[str]:
    more = {name: part.descriptors() - before[name] for name, part in stack.parts.items()}
    for each in more.values():
        for place in (stack.store, stack.store / "free"):  # slots are kept mapped, within MATMUL_STORE_FREE_BYTES
            each.pop(str(place), None)
    return [
        f"{name} has {each.total()} more: {dict(each)}"
        for name, each in more.items()
        if each.total() > (MORE_OF_AN_API if name in APIS else MORE)
    ]


def _processes(stack: ChaosStack) -> list[str]:
    """After SIGTERM to all."""
    late = [f"{name} did not end at SIGTERM" for name, part in stack.parts.items() if not part.terminate()]
    return late + [f"{process.pid}: {' '.join(process.cmdline())}" for process in stack.descendants()]
