"""Object stores for tests: moto, a server of S3 in Python, and SeaweedFS, a real one where its program is installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path

from jobs.redis.embedded import free_port
from tests.chaos.network.proxy import Proxies

BUCKET = "matrices"
KEY_ID, SECRET = "key-id-of-tests", "secret/of+tests/that/no+log/may+hold0001"
IDENTITIES = [
    {"name": "tests", "credentials": [{"accessKey": KEY_ID, "secretKey": SECRET}], "actions": ["Admin"]},
    {"name": "anonymous", "actions": ["Admin"]},
]
START_TIMEOUT_S = 180.0
SOCKETS = Path("/tmp")  # whatever TMPDIR says
SEAWEED_PARTS = ("s3", "master", "volume", "filer")


@dataclass
class ObjectServer:
    """A server with one bucket. `command` starts it in that directory."""

    command: Sequence[str]
    directory: Path
    url: str
    process: subprocess.Popen[bytes]

    @property
    def credentials(self) -> Path:
        return self.directory / "credentials"

    def settings(self, prefix: str) -> dict[str, str]:
        """For a service whose keys begin with `prefix`."""
        return {
            "store": "s3",
            "s3_url": f"s3://{BUCKET}/{prefix.strip(':')}",
            "s3_endpoint": self.url,
            "s3_region": "us-east-1",
            "s3_credentials_file": str(self.credentials),
        }

    def stop(self) -> None:
        """By SIGKILL. Removes the sockets that SeaweedFS leaves, which are always there."""
        self.process.kill()
        self.process.wait()
        for port in re.findall(r"port(?:\.grpc)?=(\d+)", " ".join(self.command)):
            for left in SOCKETS.glob(f"seaweedfs-*-{port}.sock"):
                left.unlink(missing_ok=True)

    def start_again(self) -> None:
        """With what its disk has."""
        self.process = _started(self.command, self.directory, self.url)


@dataclass
class CutOff:
    """A server that is reached over a link, which can be cut."""

    server: ObjectServer  # at the link's end
    proxies: Proxies

    def cut(self) -> None:
        self.proxies.do("objects", "mode", mode="hole", delay_s=0.0)
        self.proxies.do("objects", "reset")

    def mend(self) -> None:
        self.proxies.do("objects", "mode", mode="plain", delay_s=0.0)
        self.proxies.do("objects", "reset")  # what was held back is not to be waited for


def port_of(server: ObjectServer) -> int:
    return int(server.url.rpartition(":")[2])


@contextmanager
def cut_off_at_will(server: ObjectServer, directory: Path) -> Iterator[CutOff]:
    listen = free_port()
    link = {"name": "objects", "listen": listen, "target": port_of(server), "fails_calls": False}
    proxies = Proxies([link], 1, directory / "proxy.log")
    try:
        yield CutOff(replace(server, url=f"http://127.0.0.1:{listen}"), proxies)
    finally:
        proxies.stop()


def write_credentials(path: Path) -> Path:
    path.write_text(f"[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n")
    return path


def start_moto(directory: Path) -> ObjectServer:
    """It takes any credentials, and keeps objects in memory."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    return _server(command, directory, port)


def has_seaweed() -> bool:
    return shutil.which("weed", path=str(Path(sys.executable).parent)) is not None


def start_seaweed(directory: Path) -> ObjectServer:
    """On a disk. Whoever signs is held to it; whoever does not is let in."""
    weed = shutil.which("weed", path=str(Path(sys.executable).parent))
    assert weed is not None, "has_seaweed() is asked first"
    ports = {f"{part}.port{kind}": free_port() for part in SEAWEED_PARTS for kind in ("", ".grpc")}
    (directory / "seaweed").mkdir()
    (config := directory / "identities.json").write_text(json.dumps({"identities": IDENTITIES}))
    command = [
        *(weed, "server", "-ip=127.0.0.1", f"-dir={directory / 'seaweed'}", "-s3", f"-s3.config={config}"),
        *(f"-{name}={port}" for name, port in ports.items()),
        *("-volume.max=500", "-master.volumeSizeLimitMB=64", "-master.telemetry=false"),
        *("-s3.port.iceberg=0", "-s3.port.lance=0"),  # which have one port for all, and are not used
    ]
    return _server(command, directory, ports["s3.port"])


def _server(command: Sequence[str], directory: Path, port: int) -> ObjectServer:
    url = f"http://127.0.0.1:{port}"
    write_credentials(directory / "credentials")
    return ObjectServer(command, directory, url, _started(command, directory, url))


def _started(command: Sequence[str], directory: Path, url: str) -> subprocess.Popen[bytes]:
    """Returns once it has the bucket."""
    with open(directory / "objects.log", "ab") as log:
        environment = {**os.environ, "TMPDIR": str(directory)}  # where it keeps further logs
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, env=environment)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _has_bucket(url):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError((directory / "objects.log").read_text()[-2000:])
        time.sleep(0.05)
    return process


def _has_bucket(url: str) -> bool:
    """Makes it where it is not there yet."""
    request = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=5) as reply:
            return bool(reply.status == 200)
    except urllib.error.HTTPError as error:
        return error.code == HTTPStatus.CONFLICT
    except OSError:
        return False
