"""What the service under test is made of: where matrices are, and what the workers compute on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jobs.settings import MIB

APIS, WORKERS = ("api-0", "api-1"), ("worker-0", "worker-1")
COPIES_BYTES = 96 * MIB  # of matrices that a host keeps: so few that it fetches some again
ROOM_TIMEOUT_S = 300  # so many faults keep the store from one job for longer than the default 60
DEVICE_BYTES = 6 * MIB  # of a device for a product: so few that `products.tiled` goes in tiles


@dataclass(frozen=True, slots=True)
class Layout:
    """`s3`: an object store and two hosts, each with an API, a worker and a directory of its own. `device`: of the
    first worker; the second computes on the CPU. `has_tiles`: some products are computed in tiles."""

    store: Literal["file", "s3"] = "file"
    device: str = "cpu"
    has_tiles: bool = False

    @property
    def hosts(self) -> int:
        return 2 if self.store == "s3" else 1

    def host_of(self, part: str) -> int:
        return int(part[-1]) % self.hosts

    def device_of(self, worker: str) -> str:
        return self.device if worker == WORKERS[0] else "cpu"

    @property
    def cpu_workers(self) -> tuple[str, ...]:
        return tuple(worker for worker in WORKERS if self.device_of(worker) == "cpu")

    @property
    def struck_workers(self) -> tuple[str, ...]:
        """Those whose jobs are taken from them."""
        return WORKERS if self.device == "cpu" else WORKERS[:1]

    @property
    def tiling_kernel(self) -> str:
        return "cpu_blas" if self.device == "cpu" else "cublas"

    def settings(self) -> dict[str, str]:
        """Of every part, beside those of any layout."""
        tiles = {"device_memory_bytes": str(DEVICE_BYTES)} if self.has_tiles else {}
        device = {} if self.device == "cpu" else {"auto_measures": "off"}  # it would go on beside the jobs
        of_hosts = {"store_copies_bytes": str(COPIES_BYTES), "room_timeout_s": str(ROOM_TIMEOUT_S)}
        return tiles | device | (of_hosts if self.store == "s3" else {})

    def stores(self, directory: Path) -> tuple[Path, ...]:
        """The directory of matrices of each host."""
        names = ("matrices",) if self.hosts == 1 else tuple(f"matrices-{host}" for host in range(self.hosts))
        return tuple(directory / name for name in names)


USUAL = Layout()
OBJECTS = "object store"


def object_link(host: int) -> str:
    """The link between a host and the object store."""
    return f"objects of host {host}"


def http_link(api: str) -> str:
    """The link in front of an API."""
    return f"http of {api}"
