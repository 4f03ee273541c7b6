"""Calls the service as a program would: uploads, products of stored and of inline operands, records."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np

from benchmarks.measure.http.client import Connection, Reply, multipart, npy_bytes
from benchmarks.measure.http.load import HOST, Load, Request
from benchmarks.measure.peers.callers import JSON, NPY
from jobs.formats.elements import Array
from jobs.matrices.ranged.upload import BLOCK_BYTES

OCTETS = "application/octet-stream"
LANES = 4  # connections of an upload in ranges
_LOCATION = re.compile(rb"\r\nlocation: ([^\r]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds until the whole reply had arrived, and the address of the job's record."""

    ms: float
    location: str


class ServiceCaller:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connection = Connection(HOST, port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.__exit__(*error)

    def upload(self, array: Array) -> tuple[str, float]:
        """The matrix's id, and gigabytes per second."""
        body = npy_bytes(array)
        begun = time.perf_counter()
        reply = self._sent(Request(self.port, "POST", "/v1/matrices", {"Content-Type": NPY}, body), 200, 201)
        seconds = time.perf_counter() - begun
        return json.loads(bytes(reply.body))["id"], len(body) / seconds / 1e9

    def upload_in_ranges(self, array: Array) -> float:
        """Gigabytes per second of an upload over LANES connections, from opening it until its id is known."""
        body = array.tobytes()
        edges = [lane * len(body) // LANES // BLOCK_BYTES * BLOCK_BYTES for lane in range(LANES)] + [len(body)]
        ranges = [(first, len(body), body[first:after]) for first, after in pairwise(edges) if first < after]
        asked = json.dumps({"dtype": str(array.dtype), "shape": array.shape}).encode()
        begun = time.perf_counter()
        opened = self._sent(Request(self.port, "POST", "/v1/uploads", {"Content-Type": JSON}, asked), 201)
        url = json.loads(bytes(opened.body))["url"]
        with ThreadPoolExecutor(LANES) as lanes:
            list(lanes.map(partial(self._send_range, url), ranges))
        self._sent(Request(self.port, "POST", f"{url}/complete", {}, b""), 201)
        return len(body) / (time.perf_counter() - begun) / 1e9

    def _send_range(self, url: str, part: tuple[int, int, bytes]) -> None:
        first, size, piece = part
        said = {"Content-Type": OCTETS, "Content-Range": f"bytes {first}-{first + len(piece) - 1}/{size}"}
        with ServiceCaller(self.port) as lane:
            lane._sent(Request(self.port, "PUT", url, said, piece), 204)

    def stored(self, a: str, b: str) -> Request:
        """A product of two stored matrices. The reply is the record alone: the service is configured to leave
        out `c`."""
        body = json.dumps({"a": {"matrix": a}, "b": {"matrix": b}}).encode()
        return Request(self.port, "POST", "/v1/matmul", {"Content-Type": JSON, "Accept": JSON}, body)

    def inline(self, a: Array, b: Array, accept: str = NPY) -> Request:
        content_type, body = multipart({"a": npy_bytes(a), "b": npy_bytes(b)}, NPY)
        return Request(self.port, "POST", "/v1/matmul", {"Content-Type": content_type, "Accept": accept}, body)

    def timed(self, request: Request, refusals_left: int = 5) -> Timed:
        """Of the attempt that is not refused with 503: after a machine was paused its workers seem silent for a moment,
        and this should not end a measurement of minutes."""
        begun = time.perf_counter()
        reply = self._sent(request, 200, *([503] if refusals_left else []))
        if reply.status == 503:
            time.sleep(float(reply.headers["retry-after"]))
            return self.timed(request, refusals_left - 1)
        return Timed((time.perf_counter() - begun) * 1e3, reply.headers["location"])

    def record(self, location: str) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(bytes(self._sent(self._bare("GET", location), 200).body))
        return record

    def download(self, location: str) -> float:
        """Gigabytes per second of a job's product."""
        request = Request(self.port, "GET", f"{location}/product", {"Accept": NPY}, b"")
        begun = time.perf_counter()
        size = len(self._sent(request, 200).body)
        return size / (time.perf_counter() - begun) / 1e9

    def delete(self, location: str) -> None:
        self._sent(self._bare("DELETE", location), 204)

    def burst_per_s(self, request: Request, count: int) -> float:
        """Products per second of this many that are requested at the same moment, until the last has ended."""
        with Load(self.port, count) as load:
            whole = [request.whole] * count
            begun = time.perf_counter()
            replies = load.burst(whole)
            seconds = time.perf_counter() - begun
        for reply in replies:
            location = _LOCATION.search(reply)
            assert location is not None, reply[:500]
            self.delete(location[1].decode())
        return count / seconds

    def device_name(self) -> str:
        reply = self._sent(self._bare("GET", "/v1/devices"), 200)
        name: str = json.loads(bytes(reply.body))["devices"][0]["device"]["name"]
        return name

    def _bare(self, method: str, path: str) -> Request:
        return Request(self.port, method, path, {"Accept": JSON}, b"")

    def _sent(self, request: Request, *expected: int) -> Reply:
        """Raises RuntimeError for any other status."""
        reply = self._connection.request(request.method, request.path, request.headers, request.body)
        if reply.status not in expected:
            raise RuntimeError(f"{request.method} {request.path}: {reply.status} {bytes(reply.body[:500])!r}")
        return reply


def normal(shape: tuple[int, ...], seed: int) -> Array:
    """A batch consists of copies of a few products, because drawing random numbers would take longer than everything
    else."""
    rng = np.random.default_rng(seed)
    few = rng.standard_normal((min(shape[0], 512), *shape[1:]) if len(shape) == 3 else shape, dtype=np.float32)
    return np.resize(few, shape)
