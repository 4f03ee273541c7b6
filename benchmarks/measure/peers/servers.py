"""The servers that are compared, each started as its users start it, with as many BLAS threads as the others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure.http.client import Connection
from jobs.redis.embedded import EmbeddedServer, free_port
from tools.stack import kill_group

ROOT = Path(__file__).resolve().parents[3]
PYTRITON = ROOT / ".venv-pytriton" / "bin" / "python"
PYTRITON_SERVER = ROOT / "benchmarks" / "peers" / "pytriton_server.py"
PYTRITON_CLIENT = ROOT / "benchmarks" / "peers" / "pytriton_client.py"
HOW_TO_GET_PYTRITON = (
    "PyTriton is not measured: give it a Python of its own, one whose libpython the system has, such as Debian's "
    "(/usr/bin/python3 -m venv .venv-pytriton && .venv-pytriton/bin/pip install nvidia-pytriton==0.7.0), or name one "
    "that has it with --pytriton."
)
ASKED = "import json; from importlib.metadata import version as v; import pytriton, tritonclient.http; print(json.dumps"
START_TIMEOUT_S, STOP_TIMEOUT_S = 60.0, 20.0


def pytriton_versions(python: Path) -> dict[str, str] | None:
    """Versions in that Python; None if it lacks PyTriton."""
    names = ("nvidia-pytriton", "tritonclient", "numpy")
    if not python.exists():
        return None
    asked = subprocess.run(
        [python, "-c", f"{ASKED}({{name: v(name) for name in {names!r}}}))"],
        capture_output=True,
        text=True,
        check=False,
    )
    return None if asked.returncode else json.loads(asked.stdout)


@contextmanager
def stopped_on_request() -> Iterator[None]:
    """When this process is told to end, it stops what it started: a worker left behind would disturb the next
    measurement."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def pytriton(python: Path, directory: Path) -> Iterator[int]:
    """Starts it, and returns its port."""
    port, command = free_port(), [str(python), str(PYTRITON_SERVER)]
    environment = os.environ | {"PYTRITON_HOME": str(directory / "pytriton")}  # not the user's cache
    with _running(directory / "pytriton.log", [*command, str(port)], environment):
        _wait_until(port, "/v2/models/matmul/ready", directory / "pytriton.log")
        yield port


@contextmanager
def naive(directory: Path) -> Iterator[int]:
    """Starts it, and returns its port. Celery's worker has its default number of processes: one for each core."""
    server = EmbeddedServer(directory / "naive-redis")
    server.start()
    # Celery refuses to use pickle as root without this variable.
    environment = os.environ | {"REDIS_URL": server.url, "C_FORCE_ROOT": "1"}
    port, module = free_port(), "benchmarks.peers.naive"
    worker = [sys.executable, "-m", "celery", "--app", f"{module}:tasks", "--quiet", "worker", "--loglevel", "ERROR"]
    api = [sys.executable, "-m", "uvicorn", f"{module}:api", "--port", str(port), "--log-level", "warning"]
    try:
        with (
            _running(directory / "naive-worker.log", worker, environment),
            _running(directory / "naive-api.log", api, environment),
        ):
            _wait_until(port, "/openapi.json", directory / "naive-api.log")
            yield port
    finally:
        server.stop()


@contextmanager
def minimal(directory: Path, library: str) -> Iterator[int]:
    """Starts the peer of twenty lines, on cupy or numpy, and returns its port."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.peers.minimal", library, str(port)]
    with _running(directory / "minimal.log", command):
        _wait_until(port, "/openapi.json", directory / "minimal.log")
        yield port


@contextmanager
def _running(log: Path, command: list[str], environment: dict[str, str] | None = None) -> Iterator[None]:
    with open(log, "ab") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=ROOT, start_new_session=True)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            kill_group(process)


def _wait_until(port: int, path: str, log: Path) -> None:
    """Waits until a GET there answers 200. Raises TimeoutError with the end of the log."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            with Connection("127.0.0.1", port) as connection:
                if connection.request("GET", path, {}).status == 200:
                    return
        except OSError:
            pass  # it is not up yet
        time.sleep(0.05)
    raise TimeoutError(f"{log.stem} did not start\n{log.read_text(errors='replace')[-2000:]}")
