"""A primary and its replicas, with the same users, and a Sentinel that watches them."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from jobs.redis.connections import client_of
from jobs.redis.embedded import EmbeddedServer, find_server, free_port

HOST = "127.0.0.1"
WAIT_S = 60.0
DEAD_AFTER_MS, NEVER_MS = 500, 3_600_000
PASSWORD = "of-both-the-same"
AT_ONCE = ("repl-diskless-sync-delay 0", f"primaryauth {PASSWORD}")


class Servers:
    """`primary` is the one that began as it."""

    def __init__(self, directory: Path, replicas: int) -> None:
        self.primary = _server(directory / "primary")
        at_primary = (*AT_ONCE, f"replicaof {HOST} {self.primary.port}")
        self.replicas = [_server(directory / f"replica-{i}", at_primary) for i in range(replicas)]

    def start_replicas(self) -> None:
        """Of a primary that runs; returns once they follow it."""
        for replica in self.replicas:
            replica.start()
        with self.primary.client(WAIT_S) as root:
            root.publish("follow", "")
            until(lambda: root.wait(len(self.replicas), 100) == len(self.replicas))

    @property
    def all(self) -> list[EmbeddedServer]:
        return [self.primary, *self.replicas]

    def stop(self) -> None:
        for server in self.all:
            if server.running:
                server.kill()


def _server(directory: Path, options: tuple[str, ...] = AT_ONCE) -> EmbeddedServer:
    directory.mkdir(parents=True)
    (directory / "password").write_text(PASSWORD)
    return EmbeddedServer(directory, options=options)


def _info(client: redis.Redis) -> dict[str, Any]:
    found: dict[str, Any] = client.info("replication")
    return found


def promote(server: EmbeddedServer) -> None:
    with server.client(WAIT_S) as root:
        root.replicaof("NO", "ONE")
        assert _info(root)["role"] == "master"


def demote(server: EmbeddedServer, primary: EmbeddedServer) -> None:
    """Returns once it follows that one."""
    with server.client(WAIT_S) as root:
        root.replicaof(HOST, str(primary.port))
        until(lambda: _info(root)["master_link_status"] == "up")


def hand_over(primary: EmbeddedServer, replica: EmbeddedServer) -> None:
    """The primary takes no changes until the replica has all, and then follows it. Nobody is disconnected."""
    with primary.client(WAIT_S) as root, replica.client(WAIT_S) as other:
        root.execute_command("FAILOVER", "TO", HOST, replica.port)
        until(lambda: _info(other)["role"] == "master" and _info(root)["role"] == "slave")


@contextmanager
def frozen(*servers: EmbeddedServer) -> Iterator[None]:
    """They have what they had, and get no more."""
    with ExitStack() as thawed:
        for server in servers:
            thawed.callback(_signal, server, signal.SIGCONT)
            _signal(server, signal.SIGSTOP)
        yield


def _signal(server: EmbeddedServer, number: signal.Signals) -> None:
    if server.running:
        subprocess.run(["kill", f"-{number}", str(server.pid)], check=True)


@contextmanager
def sentinel(directory: Path, servers: Servers) -> Iterator[redis.Redis]:
    """One that knows all of them and takes none for dead, however busy the machine is, before `let_promote`; a client
    of it."""
    port, config = free_port(), directory / "sentinel.conf"
    config.write_text(
        f"port {port}\nbind {HOST}\ndir {directory}\n"
        f"sentinel monitor service {HOST} {servers.primary.port} 1\nsentinel auth-pass service {PASSWORD}\n"
        f"sentinel down-after-milliseconds service {NEVER_MS}\nsentinel failover-timeout service 5000\n"
    )
    with open(directory / "sentinel.log", "ab") as log:
        process = subprocess.Popen([find_server(), str(config), "--sentinel"], stdout=log, stderr=log)
    try:
        with client_of(f"redis://{HOST}:{port}", socket_timeout=WAIT_S, decode_responses=True) as client:
            until(lambda: _knows(client, len(servers.replicas)))
            yield client
    finally:
        process.kill()
        process.wait()


def let_promote(client: Any) -> None:
    """The Sentinel promotes a replica soon: the primary died."""
    client.execute_command("SENTINEL", "SET", "service", "down-after-milliseconds", DEAD_AFTER_MS)


def _knows(client: Any, replicas: int) -> bool:
    try:
        known = client.execute_command("SENTINEL", "REPLICAS", "service")
        return len(known) == replicas
    except redis.RedisError:
        return False


def until(holds: Any) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
