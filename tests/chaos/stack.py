"""The service under test: one Valkey, two APIs and two workers, each behind its own link to Valkey, and a link in
front of each API for its clients; in some layouts an object store, behind a link for each host."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import psutil
import redis

from jobs.ledger.redis import RedisLedger
from jobs.queue import make_ledger
from jobs.redis.embedded import EmbeddedServer, free_port
from jobs.settings import Settings
from service.keys.line import make_key
from service.keys.role import Role
from tests.chaos.disks import Disk
from tests.chaos.layout import APIS, WORKERS, Layout, http_link, object_link
from tests.chaos.network.proxy import HOST, Proxies
from tests.chaos.parts import TERM_TIMEOUT_S, Part
from tests.chaos.verdict.margins import Margins
from tests.support.objects import ObjectServer, port_of, start_seaweed

START_TIMEOUT_S = 120.0
OWNERS = 3  # keys that callers have between them, so that owners take turns in the queues
PREFIX = "matmul:"  # of keys
MARK = "MATMUL_CHAOS_RUN"
RECEIVE_TIMEOUT_S = 5.0
UNDER_WAY = 2  # products that a worker has at once
MAX_ATTEMPTS = 20  # so many faults strike one job more often than the default three

SETTINGS = {
    "api_processes": "1",
    "cpu_threads": "1",
    "max_attempts": str(MAX_ATTEMPTS),
    "max_queued_jobs": "1000000",
    "max_queued_jobs_per_key": "1000000",
    "receive_timeout_s": str(RECEIVE_TIMEOUT_S),
    "send_timeout_s": str(RECEIVE_TIMEOUT_S),
    "store_free_bytes": str(64 << 20),
    "jobs_under_way": str(UNDER_WAY),
    "log_level": "warning",
}


class ChaosStack:
    """Starts on entry and leaves no process behind. Processes start without the sweeper until `sweeps` is set."""

    prefix = PREFIX
    headers: Mapping[str, str] = MappingProxyType({})  # of each request of an account

    def __init__(self, directory: Path, layout: Layout, *, seed: int, call_fault_rate: float) -> None:
        self.directory, self.layout = directory, layout
        self.redis_disk, self.store_disk = Disk(directory / "redis"), Disk(directory / "store")
        self.stores = layout.stores(directory / "store")
        # Checked often: a script that is stuck must be told apart from one that takes its time.
        self.redis = EmbeddedServer(directory / "redis", options=("lua-time-limit 100", "loglevel warning"))
        self.sweeps = False
        self._seed, self._call_fault_rate = seed, call_fault_rate
        self._object_links = tuple(map(object_link, range(layout.hosts))) if layout.store == "s3" else ()
        links = (*APIS, *WORKERS, *map(http_link, APIS), *self._object_links)
        self._listens = {name: free_port() for name in links}
        self._objects: ObjectServer | None = None
        self.ports = {name: free_port() for name in APIS}
        pepper = secrets.token_hex(16)
        made = [make_key(f"caller {i}", pepper.encode()) for i in range(OWNERS)]
        operator = make_key("operator", pepper.encode(), role=Role.OPERATOR)
        self.keys, self.operator = tuple(each.key for each in made), operator.key
        self._auth = {
            "auth": "on",
            "api_keys": " ".join(each.line for each in (*made, operator)),
            "api_key_pepper": pepper,
        }
        self.parts: dict[str, Part] = {}
        self.proxies: Proxies | None = None
        self.slow_clients: list[socket.socket] = []  # that the service has to cut off
        self.margins = Margins()

    def _part(self, name: str) -> Part:
        own = (
            SETTINGS
            | self.layout.settings()
            | self._auth
            | self._object_settings(name)
            | {
                "redis_url": self.redis.url.replace(f":{self.redis.port}/", f":{self._listens[name]}/"),
                "store_dir": str(self.stores[self.layout.host_of(name)]),
                "kernel_cache_dir": str(self.directory / "kernels"),
                "port": str(self.ports.get(name, 0)),
            }
        )
        environment = {f"MATMUL_{key.upper()}": value for key, value in own.items()} | {MARK: str(self.directory)}
        command = ("service",) if name in APIS else ("worker", "--device", self.layout.device_of(name))
        return Part(name, command, environment, self.directory / f"{name}.log")

    def _object_settings(self, name: str) -> dict[str, str]:
        if self._objects is None:
            return {}
        port = self._listens[object_link(self.layout.host_of(name))]
        return self._objects.settings("chaos") | {"s3_endpoint": f"http://{HOST}:{port}"}

    @property
    def objects(self) -> ObjectServer:
        assert self._objects is not None, "only the layout `s3` has one"
        return self._objects

    @property
    def doors(self) -> tuple[int, ...]:
        """The ports that clients come by."""
        return tuple(self._listens[http_link(name)] for name in APIS)

    def start(self, name: str, extra: Mapping[str, str] | None = None, checkout: Path | None = None) -> None:
        self.parts[name].start({"MATMUL_SWEEPER": str(self.sweeps).lower(), **(extra or {})}, checkout)

    def terminate(self, name: str) -> bool:
        """SIGTERM, and whether the part ended by itself."""
        began = time.monotonic()
        by_itself = self.parts[name].terminate()
        self.margins.note("end at SIGTERM, s", time.monotonic() - began, TERM_TIMEOUT_S)
        return by_itself

    def redis_port(self, name: str) -> int:
        """Where a part finds Redis: its link's."""
        return self._listens[name]

    def objects_port(self, name: str) -> int | None:
        """The same of the object store."""
        return self._listens[object_link(self.layout.host_of(name))] if self._object_links else None

    def restart_redis(self) -> None:
        """SIGKILLs Valkey and starts it again on what its append-only file holds."""
        self.redis.kill()
        self.redis.start()

    def client(self) -> redis.Redis:
        """A connection of the harness's own, past all links."""
        return self.redis.client(timeout_s=30.0)

    def ledger(self, client: redis.Redis) -> RedisLedger:
        return make_ledger(Settings(), client)

    def wait_until_ready(self) -> None:
        """Returns once both APIs see both workers, and not those that were there before. Raises TimeoutError."""
        wanted = {str(self.parts[name].pid) for name in WORKERS}
        began = time.monotonic()
        waiting = list(APIS)
        while waiting and time.monotonic() < began + START_TIMEOUT_S:
            with contextlib.suppress(OSError, ValueError):
                devices = self.ask(waiting[-1], "/v1/devices")["devices"]
                if wanted <= {each["id"].rpartition("/")[2] for each in devices}:
                    waiting.pop()
                    continue
            time.sleep(0.05)
        self.margins.note("start of the service, s", time.monotonic() - began, START_TIMEOUT_S)
        if waiting:
            raise TimeoutError(f"the service was not ready in {START_TIMEOUT_S:.0f} s; see {self.directory}")

    def ask(self, api: str, path: str) -> Any:
        """Past all links. Raises OSError, ValueError."""
        asked = urllib.request.Request(
            f"http://{HOST}:{self.ports[api]}{path}", headers={"Authorization": f"Bearer {self.operator}"}
        )
        with urllib.request.urlopen(asked, timeout=10) as reply:
            return json.load(reply)

    def devices(self) -> list[str]:
        """What its workers compute on. Raises OSError, ValueError."""
        return sorted({each["device"]["name"] for each in self.ask(APIS[0], "/v1/devices")["devices"]})

    def descendants(self) -> list[psutil.Process]:
        """Every process that one of ours started, however it is related."""
        mark = str(self.directory)
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def __enter__(self) -> Self:
        self.redis.start()
        try:
            self._objects = start_seaweed(self.directory) if self._object_links else None
            self.parts = {name: self._part(name) for name in (*APIS, *WORKERS)}
            self.proxies = Proxies(self._links(), self._seed, self.directory / "proxy.log")
            for name in self.parts:
                self.start(name)
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def _links(self) -> list[dict[str, Any]]:
        inner = [
            {"name": name, "listen": self._listens[name], "target": self.redis.port, "fails_calls": True}
            for name in self.parts
        ]
        outer = [
            {
                "name": http_link(name),
                "listen": self._listens[http_link(name)],
                "target": self.ports[name],
                "fails_calls": False,
            }
            for name in APIS
        ]
        behind = [
            {"name": name, "listen": self._listens[name], "target": port_of(self.objects), "fails_calls": False}
            for name in self._object_links
        ]
        return inner + outer + behind

    def object_traffic(self) -> dict[str, int]:
        """What passed between all hosts and the object store: requests by method, and bytes each way."""
        total: Counter[str] = Counter()
        for name in self._object_links:
            total.update(self.link.traffic(name))
        return dict(total)

    def fail_calls(self, on: bool) -> None:
        """Whether calls of Redis fail at the rate that was asked for."""
        self.link.set_call_fault_rate(self._call_fault_rate if on else 0.0)

    @property
    def link(self) -> Proxies:
        assert self.proxies is not None
        return self.proxies

    def stop(self) -> None:
        for part in self.parts.values():
            part.kill()
        if self.proxies is not None:
            self.proxies.stop()
        self.redis.kill()
        if self._objects is not None:
            self._objects.stop()
        for disk in (self.redis_disk, self.store_disk):
            disk.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
