"""Processes of two versions of the service on one Redis."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import httpx
from pydantic import SecretStr

from jobs.redis.embedded import EmbeddedServer, free_port
from jobs.redis.layout import claim_layout
from jobs.settings import Settings
from tests.support.other_version import ROOT, python_path
from tools.harness.api import http_client
from tools.stack import kill_group

Version = Literal["this", "other"]
VERSIONS: tuple[Version, ...] = ("this", "other")
START_TIMEOUT_S = 240.0


@dataclass
class MixedStack:
    """One Redis, an API of each version, and workers of whichever is started."""

    directory: Path
    other: Path  # the packages of the other version
    kernels: dict[Version, str]  # what multiplies on a CPU, in each
    redis: EmbeddedServer = field(init=False)
    workers: dict[Version, subprocess.Popen[bytes]] = field(default_factory=dict)
    versions: dict[str, Version] = field(default_factory=dict)  # of all workers there were, by process id
    apis: dict[Version, httpx.Client] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.redis = EmbeddedServer(self.directory / "redis")

    @contextmanager
    def running(self) -> Iterator[None]:
        """With both APIs, and no worker."""
        with ExitStack() as stack:
            stack.callback(self.redis.stop)
            self.redis.start()
            claim_layout(Settings(redis_url=SecretStr(self.redis.url)))  # this version is the older one
            ports = {version: free_port() for version in VERSIONS}
            for version, port in ports.items():
                process = self._spawn(version, "service", f"api-{version}", {"MATMUL_PORT": str(port)})
                stack.callback(kill_group, process)
                self.apis[version] = stack.enter_context(http_client(f"http://127.0.0.1:{port}"))
            stack.callback(self._kill_workers)
            for client in self.apis.values():
                self.until(partial(is_up, client), START_TIMEOUT_S)
            yield

    def _kill_workers(self) -> None:
        for process in self.workers.values():
            kill_group(process)

    def start_worker(self, version: Version) -> None:
        self.workers[version] = self._spawn(version, "worker", f"worker-{version}", {"MATMUL_CPU_THREADS": "1"})
        self.versions[str(self.workers[version].pid)] = version
        self.until(lambda: self._is_live(version), START_TIMEOUT_S)

    def stop_worker(self, version: Version) -> None:
        """As a rolling restart does: the job at hand may end first."""
        process = self.workers.pop(version)
        process.send_signal(signal.SIGTERM)
        process.wait(180)
        kill_group(process)

    def _is_live(self, version: Version) -> bool:
        devices = self.apis["this"].get("/v1/devices").raise_for_status().json()["devices"]
        return any(self.kernels[version] in each["kernels"] for each in devices) and len(devices) >= len(self.workers)

    def _spawn(self, version: Version, package: str, name: str, settings: dict[str, str]) -> subprocess.Popen[bytes]:
        place = ROOT if version == "this" else self.other
        own = {
            "MATMUL_REDIS_URL": self.redis.url,
            "MATMUL_STORE_DIR": str(self.directory / "matrices"),
            "MATMUL_API_PROCESSES": "1",
            "MATMUL_REDIS_TIMEOUT_S": "5",
            "PYTHONPATH": python_path(place),
        }
        with open(self.directory / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", package],
                env=os.environ | own | settings,
                cwd=place,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Raises TimeoutError with the ends of the logs."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text(errors="replace")[-3000:] for path in self.directory.glob("*.log"))
                raise TimeoutError(f"it did not happen in {timeout_s:g} s\n{logs}")
            time.sleep(0.05)


def is_up(client: httpx.Client) -> bool:
    try:
        return client.get("/livez").status_code == 200
    except httpx.TransportError:
        return False
