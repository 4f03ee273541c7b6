"""Small products per second of one cell and of several on one machine, behind nginx, alternately.

    python -m benchmarks.measure.scale.cells [--cells 4] [--out benchmarks/results/scale_cells.json]

A cell is a Valkey, an API process and a CPU worker, as in `tools/stack.py`. Each has equally many callers, who send 16
x 16 products inline and wait for each. It needs three cores for each cell and one for nginx and the callers: with fewer
it measures the machine. Needs nginx.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.measure.http.client import multipart, npy_bytes
from benchmarks.measure.http.load import Request, rates
from jobs.redis.embedded import free_port
from service.cells.nginx import nginx_configuration
from service.cells.plan import Cell, CellPlan
from tools.nginx import running_nginx
from tools.stack import Stack
from worker.cpu.environment import dated_environment

CLIENTS, SECONDS, ROUNDS = 32, 10.0, 3


@contextmanager
def proxy(cells: Sequence[tuple[str, Stack]], root: Path) -> Iterator[int]:
    """Starts nginx in front of them, and returns its port."""
    port = free_port()
    listed = tuple(Cell(cell=name, servers=(f"127.0.0.1:{stack.api_port}",)) for name, stack in cells)
    plan = CellPlan(listen=f"127.0.0.1:{port}", cells=listed)
    with running_nginx(nginx_configuration(plan), port, root, workers=2):
        yield port


def request_to(port: int, cell: str) -> Request:
    """A small product for that cell. The request names the cell, so that all have equal load."""
    a = np.arange(256, dtype=np.float32).reshape(16, 16)
    content_type, body = multipart({"a": npy_bytes(a), "b": npy_bytes(a)}, "application/x-npy")
    headers = {"Content-Type": content_type, "Accept": "application/x-npy", "X-Matmul-Cell": cell}
    return Request(port, "POST", "/v1/matmul", headers, body)


def products_per_s(port: int, cells: Sequence[str], clients: int, seconds: float) -> float:
    """All cells together, with equally many callers for each, in a process for each cell."""
    found = rates([request_to(port, cell) for cell in cells], clients=clients, seconds=seconds)
    return sum(each.per_s for each in found)


def measured(count: int, clients: int, seconds: float, rounds: int) -> dict[str, Any]:
    names = [f"{i:03x}" for i in range(count)]
    with TemporaryDirectory(prefix="matmul-cells-") as directory, ExitStack() as running:
        root = Path(directory)
        stacks = []
        for name in names:
            (root / name).mkdir()
            settings = {"cell": name, "cpu_threads": "1"}
            stacks.append((name, running.enter_context(Stack(root / name, settings=settings))))
        port = running.enter_context(proxy(stacks, root))
        products_per_s(port, names, clients, seconds / 2)  # warm
        pairs = [
            (products_per_s(port, names[:1], clients, seconds), products_per_s(port, names, clients, seconds))
            for _ in range(rounds)
        ]
    return {
        "cells": count,
        "clients": clients,
        "seconds": seconds,
        "cores": os.cpu_count(),
        "one_per_s": statistics.median(one for one, _ in pairs),
        "all_per_s": statistics.median(every for _, every in pairs),
        "ratio": statistics.median(every / one for one, every in pairs),
        "rounds": [list(pair) for pair in pairs],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=4)
    parser.add_argument("--clients", type=int, default=CLIENTS, help="callers of each cell")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, help="where the record is written")
    chosen = parser.parse_args()
    found = measured(chosen.cells, chosen.clients, chosen.seconds, chosen.rounds)
    text = json.dumps({"environment": dated_environment("redis", "uvicorn")} | found, indent=1)
    print(text)
    if chosen.out is not None:
        chosen.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
