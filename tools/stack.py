"""The whole service as real processes on loopback: Valkey, an API process, workers. For tests and benches."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from jobs.redis.acl import Role
from jobs.redis.embedded import EmbeddedServer, free_port
from jobs.redis.persistence import server_options

START_TIMEOUT_S = 120.0


class Stack:
    """Starts on entry and leaves no process behind. `settings` are MATMUL_* names without the prefix, in lower case.

    One process answers HTTP unless they say otherwise, so that `api` is the process itself. With `separate_stores`
    each worker has a matrix directory of its own, as on another host. API and workers are those of the checkout `tree`,
    if that is given: of another version, perhaps.
    """

    def __init__(
        self,
        directory: Path,
        *,
        devices: tuple[str, ...] = ("cpu",),
        settings: dict[str, str] | None = None,
        separate_stores: bool = False,
        tree: Path | None = None,
    ) -> None:
        self._directory, self._tree = directory, tree
        own = settings or {}
        options, key_prefix = server_options(own.get("durability", "")), own.get("key_prefix", "matmul:")
        self.redis = EmbeddedServer(directory / "redis", options=options, key_prefix=key_prefix)
        self.api_port = free_port()
        self._devices, self._separate_stores = devices, separate_stores
        self._settings = own
        self.workers: list[subprocess.Popen[bytes]] = []
        self.api: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "redis_url": self.redis.url,
            "store_dir": str(self._directory / "matrices"),
            "kernel_cache_dir": str(self._directory / "kernels"),
            "port": str(self.api_port),
            "api_processes": "1",
        } | self._settings
        return os.environ | {f"MATMUL_{name.upper()}": value for name, value in own.items()}

    def _spawn(self, name: str, role: Role, *command: str, **variables: str) -> subprocess.Popen[bytes]:
        """Starts a process as that user of Redis, in a process group of its own, so that a kill takes its children."""
        own = {} if "redis_url" in self._settings else {"MATMUL_REDIS_URL": self.redis.url_of(role)}
        if self._tree is not None:
            own["PYTHONPATH"] = os.pathsep.join([str(self._tree), *filter(None, [os.environ.get("PYTHONPATH")])])
        with open(self._directory / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *command],
                env=self.environment | own | variables,
                cwd=self._tree,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start_api(self) -> None:
        self.api = self._spawn("api", "api", "service")

    def _start_worker(self, index: int) -> subprocess.Popen[bytes]:
        return self._spawn_worker(index, self._devices[index])

    def add_worker(self) -> subprocess.Popen[bytes]:
        """Starts another CPU worker and does not wait for it."""
        self.workers.append(self._spawn_worker(len(self.workers), "cpu"))
        return self.workers[-1]

    def _spawn_worker(self, index: int, device: str) -> subprocess.Popen[bytes]:
        own = {"MATMUL_STORE_DIR": str(self._directory / f"matrices-{index}")} if self._separate_stores else {}
        return self._spawn(f"worker-{index}", "worker", "worker", "--device", device, **own)

    def restart_worker(self, index: int) -> None:
        """SIGKILLs a worker with its child, and starts another in its place."""
        kill_group(self.workers[index])
        self.workers[index] = self._start_worker(index)

    def restart_api(self) -> None:
        """SIGKILLs the API and starts it again on the same port."""
        assert self.api is not None
        kill_group(self.api)
        self.start_api()

    def restart_redis(self) -> None:
        """SIGKILLs Redis and starts it again on what its append-only file holds."""
        self.redis.kill()
        self.redis.start()

    def wait_until_ready(self) -> None:
        """Returns once every worker is live, though one before it may still count as such. Raises TimeoutError with the
        logs' ends."""
        wanted = {str(worker.pid) for worker in self.workers[: len(self._devices)]}
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.url}/v1/devices", timeout=2) as reply:
                    if wanted <= {each["id"].rpartition("/")[2] for each in json.load(reply)["devices"]}:
                        return
            except OSError:
                pass  # the API is not up yet
            time.sleep(0.02)
        raise TimeoutError(f"the stack was not ready in {START_TIMEOUT_S:.0f} s\n{self.logs()}")

    def logs(self, tail_bytes: int = 4000) -> str:
        """The end of each process's log."""
        return "\n".join(
            f"==> {path.name}\n{path.read_bytes()[-tail_bytes:].decode(errors='replace')}"
            for path in sorted(self._directory.glob("*.log"))
        )

    def __enter__(self) -> Self:
        self.redis.start()
        try:
            self.start_api()
            self.workers = [self._start_worker(index) for index in range(len(self._devices))]
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        for process in (*self.workers, *([self.api] if self.api else [])):
            kill_group(process)
        self.redis.stop()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()


def kill_child(worker_pid: int) -> bool:
    """SIGKILL to the process that computes, as the kernel's out-of-memory killer would; its parent stays. False where
    the one before is not replaced yet."""
    for path in Path(f"/proc/{worker_pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for pid in path.read_text().split():
                os.kill(int(pid), signal.SIGKILL)
                return True
    return False


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the process and its group, as a crash of its host would."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
