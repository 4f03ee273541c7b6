"""What a run must not leave behind: keys in Redis, files in the store, processes, descriptors, connections."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from itertools import chain
from typing import Any

import redis

from jobs.fleet.places import IDENTITY
from jobs.matrices.file_store import LEFTOVER_AGE_S, LOOK_ROUND_S, SLOT_LEFTOVER_AGE_S
from tests.chaos.layout import APIS
from tests.chaos.stack import PREFIX, ChaosStack
from tests.chaos.verdict.descriptors import Held, held, too_many

# Of what jobs under way have, nothing is to be there once none is.
OF_UNENDED = re.compile(
    rf"{PREFIX}(leases|unsettled|queued:.*|backlog:.*|window:.*|batch:.*|hold:.*|job:[^:]*:dependents|broker:(cpu|gpu|bench-.*))"
)
LET_GO_S = 20.0
GONE_S = 20.0
CUT_OFF_S = 60.0  # due after twice the time that a client has to read or send, which here is 5 s


def left_behind(stack: ChaosStack, client: redis.Redis, before: Mapping[str, Held]) -> dict[str, list[str]]:
    """By kind, a line each. `before`: what each part held after its start. Every job has ended, and every caller is
    gone; the service still runs, and is stopped by this."""
    return {
        "keys": _keys(stack, client),
        "files": _files(stack, client),
        "connections": _connections(stack),
        "descriptors": too_many(stack, before),
        "processes": _processes(stack),
    }


def _keys(stack: ChaosStack, client: redis.Redis) -> list[str]:
    """A holder of an Idempotency-Key lets it go a moment after its answer."""
    began = time.monotonic()
    while (left := _keys_of_unended(client)) and time.monotonic() < began + LET_GO_S:
        time.sleep(0.5)
    stack.margins.note("keys let go, s", time.monotonic() - began, LET_GO_S)
    return left


def _keys_of_unended(client: redis.Redis) -> list[str]:
    names = (key.decode(errors="replace") for key in client.scan_iter(f"{PREFIX}*", count=5000))
    return [name for name in names if OF_UNENDED.fullmatch(name)]


def _files(stack: ChaosStack, client: redis.Redis) -> list[str]:
    """Files that are neither matrices in the books nor free, and so old that they should have been swept."""
    kept = {value.decode() for value in _data_names(client)} | {IDENTITY}
    now, found = time.time(), []
    for path in chain.from_iterable(store.iterdir() for store in stack.stores):
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
    """Of clients that are gone, and of those that neither read nor finished. Looked at from the side of the API: a
    client that read to find out would be one that reads."""
    began = time.monotonic()
    while (kept := _held_of_clients(stack)) and time.monotonic() < began + CUT_OFF_S:
        time.sleep(0.2)
    stack.margins.note("clients cut off, s", time.monotonic() - began, CUT_OFF_S)
    for each in stack.slow_clients:
        each.close()
    return [f"{name} has {count} connections of clients" for name, count in kept.items()]


def _held_of_clients(stack: ChaosStack) -> dict[str, int]:
    """By API, where it has any."""
    return {name: count for name in APIS if (count := held(stack, name).of_clients)}


def _processes(stack: ChaosStack) -> list[str]:
    """After SIGTERM to all. A process that a GPU's driver is still cleaning up after takes a moment to go."""
    late = [f"{name} did not end at SIGTERM" for name in stack.parts if not stack.terminate(name)]
    began = time.monotonic()
    while (left := stack.descendants()) and time.monotonic() < began + GONE_S:
        time.sleep(0.1)
    return late + [f"{process.pid}: {' '.join(process.cmdline())}" for process in left]
