"""Measures the service from outside, and the same products called directly in numpy in the same run.

    python -m benchmarks.measure.service [--out benchmarks/results]

Starts the embedded stack (Valkey, API, one CPU worker) in a directory of its own on free loopback ports; needs no GPU.
Writes `service_<date>.json`: per size p50 and p99 of a synchronous product (npy in, npy out) and of numpy's own time,
products per second from 16 clients, and upload speed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.measure.http.client import Connection, multipart, npy_bytes
from tools.stack import Stack
from worker.cpu.environment import dated_environment

PACKAGES = ("celery", "fastapi", "numpy", "redis", "starlette", "uvicorn")
SIZES = {16: 300, 256: 200, 1024: 40, 2048: 12}  # N: samples
WARM_UPS = 5
CLIENTS = 16
CLIENT_SECONDS = 10.0
UPLOAD_BYTES = 64 << 20


def percentiles(samples_ms: list[float]) -> dict[str, float]:
    ordered = sorted(samples_ms)
    return {
        "p50_ms": statistics.median(ordered),
        "p99_ms": ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))],
        "min_ms": ordered[0],
        "samples": len(ordered),
    }


def timed_ms(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1e3


def one_size(connection: Connection, n: int, samples: int) -> dict[str, Any]:
    """Alternates numpy's product and the service's, so that both run under the same conditions."""
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    content_type, body = multipart({"a": npy_bytes(a), "b": npy_bytes(b)}, "application/x-npy")
    headers = {"Content-Type": content_type, "Accept": "application/x-npy"}

    done: list[str] = []

    def over_http() -> None:
        reply = connection.request("POST", "/v1/matmul", headers, body)
        assert reply.status == 200, bytes(reply.body[:500])
        assert len(reply.body) > 4 * n * n
        done.append(reply.headers["location"])

    def in_numpy() -> None:
        np.matmul(a, b)

    service, numpy_alone = [], []
    for _ in range(WARM_UPS + samples):
        numpy_alone.append(timed_ms(in_numpy))
        service.append(timed_ms(over_http))
        # As in a busy service, space is freed as fast as it is used. Otherwise each product would need memory that a
        # virtual machine must first get from its host, which took 34 ms for 16 MiB on one machine.
        connection.request("DELETE", done.pop(), {})
    del service[:WARM_UPS], numpy_alone[:WARM_UPS]
    served, alone = percentiles(service), percentiles(numpy_alone)
    return {
        "n": n,
        "dtype": "float32",
        "service": served,
        "numpy": alone,
        "overhead_p50_ms": served["p50_ms"] - alone["p50_ms"],
        "ratio_p50": served["p50_ms"] / alone["p50_ms"],
    }


def throughput(host: str, port: int) -> dict[str, Any]:
    """Small products per second over HTTP from concurrent clients, each waiting for its reply."""
    a = np.arange(256, dtype=np.float32).reshape(16, 16)
    content_type, body = multipart({"a": npy_bytes(a), "b": npy_bytes(a)}, "application/x-npy")
    headers = {"Content-Type": content_type, "Accept": "application/x-npy"}
    latencies: list[float] = []
    start = time.perf_counter()

    def client() -> None:
        with Connection(host, port) as connection:
            while time.perf_counter() - start < CLIENT_SECONDS:
                begun = time.perf_counter()
                reply = connection.request("POST", "/v1/matmul", headers, body)
                assert reply.status == 200, bytes(reply.body[:500])
                latencies.append((time.perf_counter() - begun) * 1e3)

    with ThreadPoolExecutor(CLIENTS) as pool:
        for client_done in [pool.submit(client) for _ in range(CLIENTS)]:
            client_done.result()
    elapsed_s = time.perf_counter() - start
    return {
        "clients": CLIENTS,
        "n": 16,
        "products_per_s": len(latencies) / elapsed_s,
        "latency": percentiles(latencies),
    }


def upload(connection: Connection) -> dict[str, Any]:
    """A 64 MiB matrix by POST /v1/matrices, which hashes it, and as an inline operand, which is not hashed."""
    rows = UPLOAD_BYTES // (4 * 4096)
    body = npy_bytes(np.random.default_rng(0).standard_normal((rows, 4096), dtype=np.float32))
    vector = npy_bytes(np.ones((4096, 1), dtype=np.float32))
    content_type, product_body = multipart({"a": body, "b": vector}, "application/x-npy")
    result: dict[str, Any] = {"bytes": len(body)}

    def stored() -> None:
        reply = connection.request("POST", "/v1/matrices", {"Content-Type": "application/x-npy"}, body)
        assert reply.status in (200, 201), bytes(reply.body[:500])

    def inline() -> None:
        headers = {"Content-Type": content_type, "Prefer": "respond-async"}
        reply = connection.request("POST", "/v1/matmul", headers, product_body)
        assert reply.status == 202, bytes(reply.body[:500])
        jobs.append(json.loads(bytes(reply.body))["job"]["id"])

    def settle() -> None:
        for job in jobs:
            connection.request("GET", f"/v1/jobs/{job}", {"Prefer": "wait=30"})

    jobs: list[str] = []
    for name, action in (("stored", stored), ("inline", inline)):
        samples = []
        for _ in range(7):
            samples.append(timed_ms(action))
            settle()
        result[name] = percentiles(samples) | {"gb_per_s": len(body) / statistics.median(samples) / 1e6}
    return result


def measure(stack: Stack) -> dict[str, Any]:
    with Connection("127.0.0.1", stack.api_port) as connection:
        sizes = [one_size(connection, n, samples) for n, samples in SIZES.items()]
        uploads = upload(connection)
    return {"environment": dated_environment(*PACKAGES), "sizes": sizes, "upload": uploads} | {
        "throughput": throughput("127.0.0.1", stack.api_port)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    out: Path = parser.parse_args().out
    with TemporaryDirectory() as directory, Stack(Path(directory), settings={"api_processes": "0"}) as stack:
        record = measure(stack)
    path = out / f"service_{datetime.now(UTC):%Y-%m-%d}.json"
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    for row in record["sizes"]:
        service, alone = row["service"], row["numpy"]
        print(
            f"N={row['n']:5d}  service p50 {service['p50_ms']:8.2f} ms  p99 {service['p99_ms']:8.2f} ms  "
            f"numpy {alone['p50_ms']:8.2f} ms  overhead {row['overhead_p50_ms']:6.2f} ms  x{row['ratio_p50']:.2f}"
        )
    print(f"{record['throughput']['products_per_s']:.0f} products/s from {CLIENTS} clients")
    print(", ".join(f"{name} upload {record['upload'][name]['gb_per_s']:.2f} GB/s" for name in ("stored", "inline")))
    print(path)


if __name__ == "__main__":
    main()
