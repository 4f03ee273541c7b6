"""A Valkey that answers, but not as it should."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import redis

from jobs.redis.embedded import free_port
from tests.chaos.faults.fault import Fault
from tests.chaos.stack import ChaosStack

LONG_SCRIPT = "while true do end"


@contextmanager
def _set(stack: ChaosStack, **values: Any) -> Iterator[redis.Redis]:
    """These parts of its configuration for a while."""
    with stack.client() as client:
        before = {name: client.config_get(name)[name] for name in values}
        for name, value in values.items():
            client.config_set(name, value)
        try:
            yield client
        finally:
            for name, value in before.items():
                client.config_set(name, value)


def full(stack: ChaosStack, fault: Fault) -> bool:
    """Out of memory."""
    with _set(stack, maxmemory="1mb"):
        time.sleep(fault.seconds)
    return True


def no_replicas(stack: ChaosStack, fault: Fault) -> bool:
    with _set(stack, **{"min-replicas-to-write": 1}):
        time.sleep(fault.seconds)
    return True


def max_clients(stack: ChaosStack, fault: Fault) -> bool:
    """Connections are ended, and all but a few of the new ones refused."""
    with _set(stack, maxclients=4) as client:
        _end_connections(client)
        time.sleep(fault.seconds)
    return True


def changed_password(stack: ChaosStack, fault: Fault) -> bool:
    with _set(stack, requirepass="another") as client:
        _end_connections(client)
        time.sleep(fault.seconds)
    return True


def read_only(stack: ChaosStack, fault: Fault) -> bool:
    """It is the replica of a server that is not there."""
    with stack.client() as client:
        client.replicaof("127.0.0.1", free_port())
        try:
            time.sleep(fault.seconds)
        finally:
            client.replicaof("NO", "ONE")
    return True


def busy(stack: ChaosStack, fault: Fault) -> bool:
    """A script that does not end."""
    with stack.client() as client:
        stuck = threading.Thread(target=_run_for_ever, args=(stack,))
        stuck.start()
        time.sleep(fault.seconds)
        while stuck.is_alive():
            with suppress(redis.ResponseError):  # not begun yet, or ended
                client.script_kill()
            stuck.join(0.1)
    return True


def _run_for_ever(stack: ChaosStack) -> None:
    with stack.client() as client, suppress(redis.RedisError):
        client.eval(LONG_SCRIPT, 0)


def _end_connections(client: redis.Redis) -> None:
    for kind in ("normal", "pubsub"):
        client.client_kill_filter(_type=kind, skipme=True)
