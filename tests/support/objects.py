"""Object stores for tests: moto, a server of S3 in Python, and SeaweedFS, a real one where its program is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
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


@dataclass
class ObjectServer:
    """A server with one empty bucket."""

    process: subprocess.Popen[bytes]
    url: str
    credentials: Path

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
        self.process.kill()
        self.process.wait()


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


@contextmanager
def cut_off_at_will(server: ObjectServer, directory: Path) -> Iterator[CutOff]:
    listen, target = free_port(), int(server.url.rpartition(":")[2])
    link = {"name": "objects", "listen": listen, "target": target, "fails_calls": False}
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
    return _started(command, directory, port)


def has_seaweed() -> bool:
    return shutil.which("weed", path=str(Path(sys.executable).parent)) is not None


def start_seaweed(directory: Path) -> ObjectServer:
    """On a disk. Whoever signs is held to it; whoever does not is let in."""
    weed = shutil.which("weed", path=str(Path(sys.executable).parent))
    assert weed is not None, "has_seaweed() is asked first"
    ports = [free_port() for _ in range(8)]
    (directory / "seaweed").mkdir()
    (config := directory / "identities.json").write_text(json.dumps({"identities": IDENTITIES}))
    command = [
        *(weed, "server", "-ip=127.0.0.1", f"-dir={directory / 'seaweed'}", "-s3", f"-s3.port={ports[0]}"),
        *(f"-master.port={ports[1]}", f"-volume.port={ports[2]}", f"-filer.port={ports[3]}", f"-s3.config={config}"),
        *(f"-s3.port.grpc={ports[4]}", f"-master.port.grpc={ports[5]}"),
        *(f"-volume.port.grpc={ports[6]}", f"-filer.port.grpc={ports[7]}"),
        *("-volume.max=50", "-master.volumeSizeLimitMB=64"),
    ]
    return _started(command, directory, ports[0])


def _started(command: Sequence[str], directory: Path, port: int) -> ObjectServer:
    with open(directory / "objects.log", "ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _makes_bucket(url):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError((directory / "objects.log").read_text()[-2000:])
        time.sleep(0.05)
    return ObjectServer(process, url, write_credentials(directory / "credentials"))


def _makes_bucket(url: str) -> bool:
    request = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")
    with suppress(OSError, urllib.error.HTTPError), urllib.request.urlopen(request, timeout=5) as reply:
        return bool(reply.status == 200)
    return False
