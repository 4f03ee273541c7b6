"""`make run`: starts Valkey, workers and API on this machine without any configuration.

Prints one verified product, the URL and how to stop. State is kept in `MATMUL_STATE_DIR` for the next start.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import IO

from jobs.disk import tmpfs_bytes
from jobs.errors import InvalidSettings
from jobs.redis.embedded import EmbeddedServer, EmbeddedServerError
from jobs.redis.memory import memory_options
from jobs.redis.persistence import server_options
from jobs.redis.replication import warn_of_missing_replicas
from jobs.settings import Settings
from jobs.starting.options import add_settings, apply_settings, cannot_start, make_parser
from jobs.starting.wrong_settings import checked_settings
from service.local.api import ApiProcesses
from service.local.first_product import Announcer, ServiceClient
from service.local.keys import LocalKey, local_key
from service.local.supervisor import ChildProcess, ServicePart, Supervisor, tell

SHARED_MEMORY = Path("/dev/shm")
STOP_TIMEOUT_S = 30.0  # lets a worker finish its current product
OPTIONS = {"host": "address to bind", "port": "port to bind", "state_dir": "where jobs and matrices are kept"}
EXAMPLES = """\
  python -m service.local
  python -m service.local --port 9000 --state-dir /var/tmp/matmul
"""

NO_REPLICAS = (
    "MATMUL_REDIS_REPLICAS is {}, but the Redis that this starts has no replicas, so each 202 would be a 503. Unset "
    "it, or name a Redis that has them in MATMUL_REDIS_URL."
)


class CannotStartError(RuntimeError):
    """The service cannot start here; the message is a sentence that says what to do."""


def gpu_count() -> int:
    """GPUs that workers can use: none without CuPy."""
    if importlib.util.find_spec("cupy") is None:
        return 0
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return len([name for name in visible.split(",") if name.strip() not in ("", "-1")])
    if smi := shutil.which("nvidia-smi"):
        listed = subprocess.run([smi, "-L"], capture_output=True, text=True, timeout=60, check=False)
        return listed.stdout.count("GPU ") if listed.returncode == 0 else 0
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def url_of(host: str, port: int) -> str:
    """The URL of the API for this machine."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def lock(state: Path) -> IO[str]:
    """Locks the state directory while the file is open, so that no second launcher uses it."""
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    held = open(state / "lock", "w")  # noqa: SIM115 -- the caller keeps it open
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        held.close()
        raise CannotStartError(
            f"{state} is in use by a running `make run`; stop that one, or set MATMUL_STATE_DIR to another directory."
        ) from None
    return held


def store_dir(settings: Settings, state: Path, gpus: int) -> Path:
    """The directory of the matrix store. With a GPU it is in memory, if there is room, because copies are much faster
    (docs/decisions/0020-arena.md). The first start decides, so that later starts find the matrices.
    """
    on_disk = state / "matrices"
    in_memory = SHARED_MEMORY / f"matmul-{hashlib.sha256(str(state).encode()).hexdigest()[:16]}"
    if on_disk.exists() or not gpus or not tmpfs_bytes(SHARED_MEMORY):
        return on_disk
    found = os.statvfs(SHARED_MEMORY)
    has_room = found.f_bavail * found.f_frsize >= settings.store_bytes
    return in_memory if in_memory.exists() or has_room else on_disk


def child_environment(matrices: Path, port: int, redis: EmbeddedServer | None, key: LocalKey | None) -> dict[str, str]:
    """The environment of API and workers; variables set by the user are kept."""
    return {
        "MATMUL_STORE_DIR": str(matrices),
        "MATMUL_LOG_LEVEL": "warning",
        "PYTHONUNBUFFERED": "1",  # a log line is shown when it is written
        **os.environ,
        "MATMUL_PORT": str(port),
        **({"MATMUL_REDIS_URL": redis.url_of("api")} if redis else {}),
        **(key.environment if key else {}),
    }


def stages(
    redis: EmbeddedServer | None, gpus: int, api: ApiProcesses, environment: Mapping[str, str]
) -> list[Mapping[str, ServicePart]]:
    """The stages in starting order. An external Redis is not started."""
    devices = [*(f"gpu:{index}" for index in range(gpus)), "cpu"]
    worker = [sys.executable, "-m", "worker", "--device"]
    its_user = {"MATMUL_REDIS_URL": redis.url_of("worker")} if redis else {}
    workers = {device: ChildProcess(device, [*worker, device], {**environment, **its_user}) for device in devices}
    return [{"valkey": redis} if redis else {}, workers, api.parts(environment, names_lines=True)]


def metrics_dir(state: Path) -> Path:
    """An empty directory for the counters of /metrics, which start anew with each start."""
    made = state / "metrics"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    return made


def compiling_ahead(gpus: int, environment: Mapping[str, str]) -> ServicePart | None:
    """The process that compiles kernels into the cache while the service runs
    (docs/decisions/0024-compiled-ahead.md).
    """
    command = [sys.executable, "-m", "worker.cuda.ahead"]
    return ChildProcess("kernels", command, environment) if gpus else None


def serve(settings: Settings) -> int:
    """Runs until a signal arrives and returns the exit status. Raises CannotStartError, EmbeddedServerError,
    InvalidSettings.
    """
    state = settings.state_dir.absolute()
    has_own_redis = settings.model_fields_set & {"redis_url", "redis_url_file"}
    if has_own_redis:
        warn_of_missing_replicas(settings)
    elif settings.redis_replicas:
        raise InvalidSettings(NO_REPLICAS.format(settings.redis_replicas))
    with lock(state):
        key = local_key(settings, state)
        api = ApiProcesses(settings, metrics_dir(state))
        options = (*server_options(settings.durability), *memory_options(settings))
        redis = (
            None if has_own_redis else EmbeddedServer(state / "valkey", options=options, key_prefix=settings.key_prefix)
        )
        gpus = gpu_count()
        environment = child_environment(store_dir(settings, state, gpus), api.port, redis, key)
        parts = stages(redis, gpus, api, environment)
        ahead = compiling_ahead(gpus, environment)
        supervisor = Supervisor(parts, stop_timeout_s=STOP_TIMEOUT_S, once=ahead)
        tell(f"Starting {', '.join(name for stage in parts for name in stage)}")
        client = ServiceClient(url_of(settings.host, api.port), key.value if key else None)
        announcer = Announcer(client, state, workers=len(parts[1]), shows_key=key is not None and key.is_for_callers)
        return supervise(supervisor, api, announcer)


def supervise(supervisor: Supervisor, api: ApiProcesses, announcer: Announcer) -> int:
    """Keeps everything running until a signal arrives or the first product fails, then stops it."""
    asked = Event()
    Thread(target=announcer.run, args=(asked,), daemon=True).start()
    try:
        supervisor.run(asked)
    finally:
        tell("Stopping: the API, then the workers, then Valkey. Ctrl-C again kills them.")
        api.close()
        supervisor.stop()
    return 1 if announcer.failed else 0


def main(arguments: Sequence[str] | None = None) -> None:
    about = "The whole service on this machine: Redis, a worker for each device, and the API. `make run` does this."
    parser = make_parser("python -m service.local", about, EXAMPLES)
    add_settings(parser, OPTIONS)
    apply_settings(parser.parse_args(arguments), OPTIONS)
    try:
        sys.exit(serve(checked_settings()))
    except (CannotStartError, EmbeddedServerError, InvalidSettings, OSError) as error:
        cannot_start("matmul-service", error)
