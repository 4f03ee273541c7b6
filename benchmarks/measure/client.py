"""Measures the Python client and the same requests over a bare socket, alternately, on the whole service.

    python -m benchmarks.measure.client [--out benchmarks/results]

Writes `client_<date>.json`: for each size the medians of both, of the client's extra time in each pair, and of its
extra CPU time. The bare socket sends bytes that were prepared before, and leaves the product in its buffer; the client
starts from arrays and returns one. A disturbance affects both of a pair, so the median of the differences is more
reliable than a difference of medians.
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.measure.http.client import Connection
from matmul_client import Client
from matmul_client.core import products
from matmul_client.core.wire import Call, Compute, Request
from tools.stack import Stack
from worker.cpu.environment import dated_environment

PACKAGES = ("httpx2", "numpy", "uvicorn")
SIZES = {16: 400, 256: 150, 2048: 15}  # N: pairs
WARM_UPS = 10


def request_of(a: Any, b: Any) -> Request:
    """The request that the client sends for a product."""
    flow = products.multiply(Call(60.0, 20), a, b, {})
    step = next(flow)
    while isinstance(step, Compute):
        step.work()
        step = flow.send(None)
    assert isinstance(step, Request)
    return step


def bare_call(connection: Connection, request: Request) -> Callable[[], object]:
    """Sends the same request, with a new key each time, as each call of the client has."""
    body = b"".join(request.body)

    def call() -> None:
        headers = {**request.headers, "idempotency-key": secrets.token_hex(16)}
        reply = connection.request("POST", request.target, headers, body)
        assert reply.status == 200, bytes(reply.body[:500])

    return call


def one_size(client: Client, connection: Connection, n: int, pairs: int) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    bare = bare_call(connection, request_of(a, b))
    times: list[dict[str, tuple[float, float]]] = []
    ways: dict[str, Callable[[], object]] = {"bare": bare, "client": lambda: client.matmul(a, b)}
    for index in range(WARM_UPS + pairs):
        order = sorted(ways, reverse=bool(index % 2))  # alternate which of the two comes first
        times.append({name: wall_and_cpu_ms(ways[name]) for name in order})
    kept = times[WARM_UPS:]
    wall = {name: statistics.median(pair[name][0] for pair in kept) for name in ways}
    longer_ms = statistics.median(pair["client"][0] - pair["bare"][0] for pair in kept)
    return {
        "n": n,
        "pairs": pairs,
        "bare_p50_ms": wall["bare"],
        "client_p50_ms": wall["client"],
        "longer_p50_ms": longer_ms,
        "longer_fraction": longer_ms / wall["bare"],
        "more_cpu_p50_ms": statistics.median(pair["client"][1] - pair["bare"][1] for pair in kept),
    }


def wall_and_cpu_ms(action: Callable[[], object]) -> tuple[float, float]:
    """CPU time is that of this process alone: it hardly depends on what else the machine does."""
    begun, worked = time.perf_counter(), time.process_time()
    action()
    return (time.perf_counter() - begun) * 1e3, (time.process_time() - worked) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    out: Path = parser.parse_args().out
    with (
        TemporaryDirectory() as directory,
        Stack(Path(directory), settings={"api_processes": "1", "cpu_threads": "1"}) as stack,
        Connection("127.0.0.1", stack.api_port) as connection,
        Client(stack.url) as client,
    ):
        sizes = [one_size(client, connection, n, pairs) for n, pairs in SIZES.items()]
    record = {"environment": dated_environment(*PACKAGES), "sizes": sizes}
    path = out / f"client_{datetime.now(UTC):%Y-%m-%d}.json"
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    for row in sizes:
        print(
            f"N={row['n']:5d}  bare {row['bare_p50_ms']:8.3f} ms  client {row['client_p50_ms']:8.3f} ms  "
            f"longer by {row['longer_p50_ms']:6.3f} ms, {row['longer_fraction']:.1%}, "
            f"CPU {row['more_cpu_p50_ms']:.3f} ms more"
        )
    print(path)


if __name__ == "__main__":
    main()
