"""How fast a host fetches a matrix of the object store, as a share of the rate at which a loopback server delivers
ranges.

    python -m benchmarks.measure.scale.objects [--out benchmarks/results/scale_objects.json]

nginx serves the objects as files, with next to no overhead, so that the remaining time is the store's own. The
reference rate is that of plain sockets with equally many ranges at once over kept connections, which discard what they
read. Both alternate; the arena is on /dev/shm, and each fetch goes from the bucket, checked against its digests, into a
slot. Needs nginx and obstore.
"""

from __future__ import annotations

import argparse
import json
import secrets
import socket
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pydantic import SecretStr

from jobs.matrices.digest import Digest
from jobs.matrices.factory import make_matrix_store
from jobs.matrices.index import Claim
from jobs.matrices.s3_store.store import ObjectMatrixStore
from jobs.matrices.s3_store.transfer import RANGE_BYTES, RANGES_AT_ONCE, digests_key, elements_key
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer, free_port
from jobs.settings import Settings
from tools.nginx import running_nginx
from worker.cpu.environment import dated_environment

PACKAGES = ("numpy", "obstore", "redis", "xxhash")
MIB = 1 << 20
ROUNDS = 9
SHM = Path("/dev/shm")


@contextmanager
def files_over_http(root: Path) -> Iterator[int]:
    """The port of an nginx that serves `root`/objects."""
    port = free_port()
    served = f"server {{ listen 127.0.0.1:{port}; root {root}/objects; }}"
    with running_nginx(served, port, root, workers=2):
        yield port


class PlainSockets:
    """As many connections and threads as the store uses, kept open as it keeps its own."""

    def __init__(self, port: int) -> None:
        self._sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(RANGES_AT_ONCE)]
        self._pool = ThreadPoolExecutor(RANGES_AT_ONCE)

    def read_s(self, path: str, size: int) -> float:
        """Seconds for all ranges."""
        starts = list(range(0, size, RANGE_BYTES))
        shares = [starts[i::RANGES_AT_ONCE] for i in range(RANGES_AT_ONCE)]

        def take(connection: socket.socket, mine: list[int]) -> None:
            for start in mine:
                _drop(connection, path, start, min(start + RANGE_BYTES, size))

        begun = time.perf_counter()
        list(self._pool.map(take, self._sockets, shares))
        return time.perf_counter() - begun

    def close(self) -> None:
        self._pool.shutdown()
        for connection in self._sockets:
            connection.close()


def _drop(connection: socket.socket, path: str, start: int, end: int) -> None:
    """Reads a range into the same MiB over and over."""
    buffer, taken = memoryview(bytearray(MIB)), bytearray()
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nRange: bytes={start}-{end - 1}\r\n\r\n".encode())
    while (at := taken.find(b"\r\n\r\n")) < 0:
        taken += connection.recv(4096)
    assert taken.startswith(b"HTTP/1.1 206"), bytes(taken[:at])
    left = end - start - (len(taken) - at - 4)
    while left:
        count = connection.recv_into(buffer, min(left, MIB), socket.MSG_WAITALL)
        assert count, "the server closed the connection"
        left -= count


def fetch_s(store: ObjectMatrixStore, data: str, matrix_id: str, size: int) -> float:
    """Seconds from no copy on this host to an opened copy."""
    store.slots.free(store.path(data))
    begun = time.perf_counter()
    with store.open(matrix_id, "int8", (1, size)) as stored:
        taken = time.perf_counter() - begun
        assert stored.elements.nbytes == size
    del stored
    return taken


def measured(root: Path, size: int, rounds: int) -> dict[str, Any]:
    matrix_id = secrets.token_hex(32)
    data = f"{matrix_id}.w_{secrets.token_hex(16)}"
    with TemporaryDirectory(prefix="matmul-redis-") as place, files_over_http(root) as port:
        server = EmbeddedServer(Path(place))
        server.start()
        settings = Settings(
            redis_url=SecretStr(server.url),
            store="s3",
            s3_url="s3://bucket/cell",
            s3_endpoint=f"http://127.0.0.1:{port}",
            s3_region="us-east-1",
            s3_credentials_file=_credentials(root),
            store_dir=root / "arena",
            store_free_bytes=4 * size,
            max_matrix_bytes=size,
            store_bytes=8 * size,
        )
        try:
            with connect(settings) as client:
                store = make_matrix_store(settings, client, keeps_maps=True)
                assert isinstance(store, ObjectMatrixStore)
                store.index.claim(Claim(matrix_id, data, "int8", (1, size), "bench", 3600.0))
                _put(root / "objects" / "bucket" / "cell", data, size)
                path = f"/bucket/cell/{elements_key(data)}"
                sockets = PlainSockets(port)
                pairs = [(sockets.read_s(path, size), fetch_s(store, data, matrix_id, size)) for _ in range(rounds + 2)]
                sockets.close()
        finally:
            server.stop()
    pairs = pairs[2:]  # without warm-up: now the slot has its memory, and nginx has read the file
    share = statistics.median(own / ours for own, ours in pairs)
    own, ours = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
    return {
        "bytes": size,
        "rounds": rounds,
        "server_gb_per_s": size / own / 1e9,
        "store_gb_per_s": size / ours / 1e9,
        "share": share,
    }


def _credentials(root: Path) -> Path:
    path = root / "credentials"
    path.write_text("[default]\naws_access_key_id = none\naws_secret_access_key = none\n")
    return path


def _put(root: Path, data: str, size: int) -> None:
    raw = np.random.default_rng(1).bytes(size)
    digest = Digest(size)
    digest.update(raw)
    for key, content in ((elements_key(data), raw), (digests_key(data), digest.parts())):
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where the record is written")
    parser.add_argument("--mib", type=int, nargs="+", default=[16, 64, 512], help="sizes of matrices")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args()
    rows = []
    for mib in chosen.mib:
        with TemporaryDirectory(prefix="matmul-objects-", dir=SHM if SHM.is_dir() else None) as root:
            rows.append(measured(Path(root), mib * MIB, chosen.rounds))
        print(json.dumps(rows[-1]), flush=True)
    record = {"environment": dated_environment(*PACKAGES), "ranges_at_once": RANGES_AT_ONCE, "sizes": rows}
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
