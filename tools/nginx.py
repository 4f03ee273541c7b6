"""nginx in the foreground of a test or a measurement."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.stack import kill_group

PLACES = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"  # Debian keeps it out of a user's PATH
START_TIMEOUT_S = 60.0
MAIN = """\
daemon off;
user {user};
worker_processes {workers};
pid {root}/nginx.pid;
error_log {root}/error.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    keepalive_requests 1000000;
    client_body_temp_path {root}/body;
    proxy_temp_path {root}/proxy;
    fastcgi_temp_path {root}/fastcgi;
    uwsgi_temp_path {root}/uwsgi;
    scgi_temp_path {root}/scgi;
    include {root}/served.conf;
}}
"""


def nginx_binary() -> str | None:
    """The path of nginx; None if it is not installed."""
    return shutil.which("nginx", path=f"{PLACES}:{os.environ.get('PATH', '')}")


class Nginx:
    """Serves what stands in the `http` block, which listens on that loopback port. `root` is for its own files."""

    def __init__(self, configuration: str, port: int, root: Path, *, workers: int = 1) -> None:
        self._port, self._root = port, root
        user = pwd.getpwuid(os.geteuid()).pw_name
        (root / "served.conf").write_text(configuration)
        (root / "nginx.conf").write_text(MAIN.format(root=root, user=user, workers=workers))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns once it listens. Raises RuntimeError with what it says where it does not start."""
        binary = nginx_binary()
        if binary is None:
            raise RuntimeError("nginx is not installed")
        root = self._root
        with open(root / "nginx.log", "ab") as log:
            command = [binary, "-p", str(root), "-c", str(root / "nginx.conf"), "-e", str(root / "error.log")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _listens(self._port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError((root / "nginx.log").read_text() or (root / "error.log").read_text())
            time.sleep(0.01)

    def reload(self) -> None:
        """Reads its configuration anew: new processes take over, and the old ones finish their requests."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        """SIGKILL to all its processes, as a crash of its host would."""
        if self._process is not None:
            kill_group(self._process)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


@contextmanager
def running_nginx(configuration: str, port: int, root: Path, *, workers: int = 1) -> Iterator[None]:
    """For a while. Raises RuntimeError as `start` does."""
    nginx = Nginx(configuration, port, root, workers=workers)
    nginx.start()
    try:
        yield
    finally:
        nginx.stop()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
