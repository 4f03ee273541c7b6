"""A caller for each server: the time of a product, one after another and from many clients at once."""

from __future__ import annotations

import json
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure.http.client import Connection, Reply, multipart, npy_bytes
from benchmarks.measure.http.load import HOST, Request, rate
from benchmarks.measure.peers.servers import PYTRITON_CLIENT
from jobs.formats.elements import Array

JSON, NPY, RAW = "application/json", "application/x-npy", "application/octet-stream"
MakeRequest = Callable[[int, int], Request]  # of a port and N


def operands(n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, n), dtype=np.float32), rng.standard_normal((n, n), dtype=np.float32)


def service_request(port: int, n: int) -> Request:
    """Both operands as .npy files, the product as one."""
    a, b = operands(n)
    content_type, body = multipart({"a": npy_bytes(a), "b": npy_bytes(b)}, NPY)
    return Request(port, "POST", "/v1/matmul", {"Content-Type": content_type, "Accept": NPY}, body)


def naive_request(port: int, n: int) -> Request:
    body = b"".join(map(npy_bytes, operands(n)))
    return Request(port, "POST", "/matmul", {"Content-Type": RAW}, body)


def minimal_request(port: int, n: int) -> Request:
    body = b"".join(operand.tobytes() for operand in operands(n))
    return Request(port, "POST", f"/{n}/{n}/{n}", {"Content-Type": RAW}, body)


def inference_request(port: int, n: int) -> Request:
    """The Open Inference Protocol with binary tensors, as `tritonclient` sends it."""
    tensor: dict[str, Any] = {"shape": [n, n], "datatype": "FP32", "parameters": {"binary_data_size": 4 * n * n}}
    inputs = [{"name": name} | tensor for name in "ab"]
    header = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(header))}
    body = header + b"".join(operand.tobytes() for operand in operands(n))
    return Request(port, "POST", "/v2/models/matmul/infer", headers, body)


class Caller(ABC):
    @abstractmethod
    def latencies_ms(self, n: int, count: int) -> list[float]:
        """Times of this many products of n×n, one after another, each until it has arrived completely."""

    @abstractmethod
    def products_per_s(self, n: int, clients: int, seconds: float) -> float:
        """From this many clients, each with one pending product."""


class HttpCaller(Caller):
    """Uses our own lean client, the same for every server."""

    def __init__(self, port: int, make_request: MakeRequest) -> None:
        self._port, self._make_request = port, make_request

    def latencies_ms(self, n: int, count: int) -> list[float]:
        request = self._make_request(self._port, n)
        with Connection(HOST, self._port) as connection:
            return [product_ms(connection, request, n) for _ in range(count)]

    def products_per_s(self, n: int, clients: int, seconds: float) -> float:
        return rate(self._make_request(self._port, n), clients=clients, seconds=seconds).per_s


def product_ms(connection: Connection, request: Request, n: int) -> float:
    """Milliseconds until the product has arrived completely."""
    begun = time.perf_counter()
    reply = connection.request(request.method, request.path, request.headers, request.body)
    taken_ms = (time.perf_counter() - begun) * 1e3
    check_product(reply, n)
    # As in a busy service, space is freed as fast as it is used.
    if location := reply.headers.get("location"):
        connection.request("DELETE", location, {})
    return taken_ms


def check_product(reply: Reply, n: int) -> None:
    """Raises RuntimeError for an error, or for an incomplete product."""
    if reply.status != 200 or len(reply.body) < 4 * n * n:
        raise RuntimeError(f"status {reply.status}, {len(reply.body)} bytes: {bytes(reply.body[:300])!r}")


class TritonCaller(Caller):
    """By `tritonclient`, in PyTriton's own Python."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def _asked(self, **what: float) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(what)}\n")
        self._process.stdin.flush()
        if not (answer := self._process.stdout.readline()):
            raise RuntimeError("the client of PyTriton ended; what it wrote stands above")
        return json.loads(answer)

    def latencies_ms(self, n: int, count: int) -> list[float]:
        latencies: list[float] = self._asked(n=n, count=count)
        return latencies

    def products_per_s(self, n: int, clients: int, seconds: float) -> float:
        rate: float = self._asked(n=n, clients=clients, seconds=seconds)
        return rate


@contextmanager
def triton_caller(python: Path, port: int) -> Iterator[TritonCaller]:
    command = [str(python), str(PYTRITON_CLIENT), str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield TritonCaller(process)
        finally:
            process.kill()
