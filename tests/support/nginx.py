"""nginx in front of cells, where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service.cells.nginx import nginx_configuration
from service.cells.plan import CellPlan
from tools.played.api import until

PLACES = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"
MAIN = """\
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    include {directory}/matmul.conf;
}}
"""


def nginx_binary() -> str:
    """Skips where there is none; fails there in continuous integration."""
    found = shutil.which("nginx", path=f"{PLACES}:{os.environ.get('PATH', '')}")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("nginx is not installed")
        pytest.skip("nginx is not installed")
    return found


@contextmanager
def running_nginx(plan: CellPlan, directory: Path) -> Iterator[str]:
    """Its address."""
    binary = nginx_binary()
    (directory / "matmul.conf").write_text(nginx_configuration(plan))
    (directory / "nginx.conf").write_text(MAIN.format(directory=directory))
    with open(directory / "nginx.log", "ab") as log:
        command = [
            binary,
            "-p",
            str(directory),
            "-c",
            str(directory / "nginx.conf"),
            "-e",
            str(directory / "error.log"),
        ]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: process.poll() is not None or (directory / "nginx.pid").exists())
        assert process.poll() is None, (directory / "nginx.log").read_text()
        yield f"http://{plan.listen}"
    finally:
        process.terminate()
        process.wait()
