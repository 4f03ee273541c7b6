"""The service as it is attacked: one API without keys, one with, a worker on the CPU, and limits that keep it busy
with refusing rather than with computing.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from jobs.redis.embedded import free_port
from service.keys import make_key
from tests.malformed.run import Servers
from tests.malformed.seeds import seeds
from tools.harness.api import until
from tools.stack import START_TIMEOUT_S, Stack, kill_group

PEPPER = "a pepper for these tests"
LIMITS = {
    "max_body_bytes": 2 << 20,
    "max_json_bytes": 256 << 10,
    "max_matrix_bytes": 1 << 20,
    "store_bytes": 256 << 20,
    "redis_timeout_s": 5,  # so that no right request is refused on a busy machine
    "default_wait_s": 0.05,
    "max_wait_s": 0.1,
    "max_benchmark_cases": 4,
    "max_benchmark_flops": 2e4,
    "benchmark_timeout_s": 60,
    "job_timeout_s": 30,
    "matrix_ttl_s": 60,
    "product_ttl_s": 60,
    "job_ttl_s": 60,
    "idempotency_ttl_s": 60,
}


class Attacked:
    """The processes, and what must not happen to them."""

    def __init__(self, stack: Stack, directory: Path) -> None:
        self.stack = stack
        self._directory = directory
        self._keyed_port = free_port()
        self._key = make_key("mallory", PEPPER.encode())
        own = {
            "MATMUL_PORT": str(self._keyed_port),
            "MATMUL_AUTH": "on",
            "MATMUL_API_KEYS": self._key.line,
            "MATMUL_API_KEY_PEPPER": PEPPER,
        }
        with open(directory / "keyed.log", "wb") as log:
            self._keyed = subprocess.Popen(
                [sys.executable, "-m", "service"],
                env=stack.environment | own,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def servers(self) -> Servers:
        """Both APIs; three of four requests go to the one without keys."""
        keyed = f"http://127.0.0.1:{self._keyed_port}"
        until(lambda: _answers(self._keyed_port), START_TIMEOUT_S)
        open_seeds = seeds(self.stack.url, {})
        keyed_seeds = seeds(keyed, {"Authorization": f"Bearer {self._key.key}"})
        open_server = ("127.0.0.1", int(urlsplit(self.stack.url).port or 0), open_seeds)
        return [open_server] * 3 + [("127.0.0.1", self._keyed_port, keyed_seeds)]

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        assert self.stack.api is not None
        return [self.stack.api, self._keyed, *self.stack.workers]

    def ids(self) -> set[int]:
        """Of all processes that live, children too."""
        parents = [psutil.Process(process.pid) for process in self.processes if process.poll() is None]
        return {process.pid for parent in parents for process in (parent, *parent.children(recursive=True))}

    def rss_bytes(self) -> int:
        """Of all processes together."""
        return sum(psutil.Process(process).memory_info().rss for process in self.ids())

    def tracebacks(self) -> int:
        """In all logs."""
        return sum(path.read_bytes().count(b"Traceback (most recent") for path in self._directory.glob("*.log"))

    def stop(self) -> None:
        kill_group(self._keyed)


@contextmanager
def attacked(directory: Path, *, api_processes: int = 1) -> Iterator[Attacked]:
    """Leaves no process behind."""
    settings = {name: str(value) for name, value in LIMITS.items()} | {"api_processes": str(api_processes)}
    with Stack(directory, settings=settings) as stack:
        server = Attacked(stack, directory)
        try:
            yield server
        finally:
            server.stop()


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
