"""A large operand goes through the API in bounded memory, in and out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx

from jobs.formats.npy import npy_header
from tools.stack import Stack

SIDE = 16_384  # 1 GiB of float32
GROWTH_BYTES = 64 << 20
PIECE = bytes(1 << 20)


def peak_bytes(pid: int) -> int:
    """The most memory that the process ever had."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def test_a_gibibyte_in_and_out(stack: Stack, client: httpx.Client) -> None:
    header = npy_header("float32", (SIDE, SIDE))
    size = len(header) + SIDE * SIDE * 4

    def body() -> Iterator[bytes]:
        yield header
        for _ in range(SIDE * SIDE * 4 // len(PIECE)):
            yield PIECE

    assert stack.api is not None
    client.get("/livez")
    before = peak_bytes(stack.api.pid)
    headers = {"content-type": "application/x-npy", "content-length": str(size)}
    stored = client.post("/v1/matrices", content=body(), headers=headers)
    assert stored.json()["shape"] == [SIDE, SIDE]
    path = stored.headers["location"]
    try:
        with client.stream("GET", path) as reply:
            assert sum(len(piece) for piece in reply.iter_raw(1 << 20)) == size
        assert peak_bytes(stack.api.pid) - before < GROWTH_BYTES
    finally:
        client.delete(path)
