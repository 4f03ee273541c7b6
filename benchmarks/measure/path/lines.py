"""The lines of the record: square products, queued products, many clients, whole batches, bodies, new shapes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measure.http.client import Connection
from benchmarks.measure.http.load import HOST, Request, rate
from benchmarks.measure.path.bare import bare_path
from benchmarks.measure.path.caller import ServiceCaller, normal
from benchmarks.measure.path.rows import Budget, Rows, by_turns, medians
from benchmarks.measure.peers.callers import JSON, minimal_request, product_ms

IN_A_ROW, MAX_TURNS, BURSTS, CLIENT_ROUNDS, TRANSFERS = 4, 15, 7, 3, 5
EXAMINING_S, AT_EACH_WORKER = 4.0, 8  # products at once, so that each of two workers meets the shape
REPEATS = 3  # of the first job of a shape: itself and two more
MIN_SHAPE, MAX_SHAPE, SHAPES_SEED = 32, 2048, 19
MANY_CLIENTS_N, BATCH_N = 16, 64


@dataclass(frozen=True, slots=True)
class Square:
    """A product of stored operands: times of its job, of its caller's wait, and of its job in the queue."""

    record: dict[str, Any]
    caller_ms: float
    queue_ms: float


@dataclass(slots=True)
class Run:
    """What is measured, with which parts, and for how long."""

    service: ServiceCaller
    minimal_port: int
    device: str
    rows: Rows
    budget: Budget
    operands: dict[int, tuple[str, str]] = field(default_factory=dict)  # N: ids of A and B in the store
    squares: dict[int, Square] = field(default_factory=dict)  # by N

    def stored(self, n: int) -> Request:
        """Uploads the operands once."""
        if n not in self.operands:
            a, b = (self.service.upload(normal((n, n), 2 * n + which))[0] for which in range(2))
            self.operands[n] = a, b
        return self.service.stored(*self.operands[n])


def square(run: Run, n: int, share: float) -> None:
    """One caller, one product at a time: with stored operands and no product in the reply, and with .npy files both
    ways. `first` is the median of each turn's first product, which finds caches and processors as the others left
    them; `total` is from the job's submission to its end, without body and reply, and `queue` its part before a worker
    had it."""
    a, b = normal((n, n), 3 * n), normal((n, n), 3 * n + 1)
    bare, minimal = bare_path(run.device, a, b), minimal_request(run.minimal_port, n)
    jobs: dict[str, list[dict[str, Any]]] = {"stored": [], "inline": []}

    def timed(name: str, request: Request) -> Callable[[], float]:
        def sample() -> float:
            answer = run.service.timed(request)
            jobs[name].append(run.service.record(answer.location))
            run.service.delete(answer.location)
            return answer.ms

        return sample

    with Connection(HOST, run.minimal_port) as connection:
        actions = {
            "stored": timed("stored", run.stored(n)),
            "inline": timed("inline", run.service.inline(a, b)),
            "minimal": lambda: product_ms(connection, minimal, n),
            "fresh": bare.fresh_ms,
            "resident": bare.resident_ms,
        }
        times = by_turns(actions, MAX_TURNS, run.budget.ends_at(share), in_a_row=IN_A_ROW)
    typical, samples = medians(times), len(times["stored"])
    first = medians({name: of_action[::IN_A_ROW] for name, of_action in times.items()})
    queue_ms, last = median(job["timing"]["queue_ms"] for job in jobs["stored"]), jobs["stored"][-1]
    run.squares[n] = Square(last, typical["stored"], queue_ms)
    of_stored = {"service": typical["stored"], "first": first["stored"], "bare": typical["resident"]}
    run.rows.add("stored", n=n, **of_stored, kernel=last["kernel"], samples=samples)
    of_inline = {"service": typical["inline"], "first": first["inline"], "bare": typical["fresh"]}
    in_job = {name: median(job["timing"][f"{name}_ms"] for job in jobs["inline"]) for name in ("queue", "total")}
    run.rows.add("inline", n=n, **of_inline, minimal=typical["minimal"], samples=samples, **in_job)
    if h2d_ms := median(job["timing"]["h2d_ms"] for job in jobs["inline"]):
        run.rows.add("h2d", n=n, service=(a.nbytes + b.nbytes) / h2d_ms / 1e6)


def _wait_for_auto(run: Run, request: Request) -> None:
    """A worker examines a new shape between jobs, and takes a kernel that is compiled until then."""
    ends_at = time.monotonic() + EXAMINING_S
    while time.monotonic() < ends_at:
        run.service.burst_per_s(request, AT_EACH_WORKER)
        time.sleep(EXAMINING_S / 4)


def queued(run: Run, n: int, count: int, share: float, line: str = "queued") -> None:
    """Products per second of stored operands, this many requested at once, no product in the reply."""
    bare = bare_path(run.device, normal((n, n), 3 * n), normal((n, n), 3 * n + 1))
    request = run.stored(n)
    if n not in run.squares:  # no line before this one had the shape
        _wait_for_auto(run, request)
    actions = {
        "service": lambda: run.service.burst_per_s(request, count),
        "bare": lambda: bare.resident_per_s(count),
    }
    rates = by_turns(actions, BURSTS, run.budget.ends_at(share))
    run.rows.add(line, n=n, **medians(rates), count=count, samples=len(rates["service"]))


def many_clients(run: Run, clients: int, processes: int, seconds: float) -> None:
    """Products per second with inline operands; each client has one pending product."""
    n = MANY_CLIENTS_N
    requests = {
        "service": run.service.inline(normal((n, n), 1), normal((n, n), 2)),
        "minimal": minimal_request(run.minimal_port, n),
    }
    rates: dict[str, list[float]] = {name: [] for name in requests}
    for _ in range(CLIENT_ROUNDS):
        for name, request in requests.items():
            rates[name].append(rate(request, clients=clients, seconds=seconds, processes=processes).per_s)
    run.rows.add("clients", n=n, **medians(rates), count=clients, samples=CLIENT_ROUNDS)


def batch(run: Run, count: int) -> None:
    """Products per second of one request with a batch axis: stored operands that the device has not seen, no product in
    the reply."""
    shape = (count, BATCH_N, BATCH_N)
    pairs = [[run.service.upload(normal(shape, 10 + 2 * pair + which))[0] for which in range(2)] for pair in range(3)]
    times = []
    for a, b in pairs:
        answer = run.service.timed(run.service.stored(a, b))
        run.service.delete(answer.location)
        times.append(answer.ms)
    bare = bare_path(run.device, normal(shape, 1), normal(shape, 2))
    bare_ms = median(bare.fresh_ms() for _ in range(TRANSFERS))
    # The first one includes the decision of `auto`, and compilation.
    run.rows.add("batch", n=BATCH_N, service=count / min(times[1:]) * 1e3, bare=count / bare_ms * 1e3, count=count)


def bodies(run: Run, n: int) -> None:
    """Gigabytes per second of an upload under its sha256, whole and in ranges, and of a product's download."""
    uploads = [run.service.upload(normal((n, n), 50 + number))[1] for number in range(TRANSFERS)]
    run.rows.add("upload", n=n, service=median(uploads), samples=TRANSFERS)
    ranges = [run.service.upload_in_ranges(normal((n, n), 70 + number)) for number in range(TRANSFERS)]
    run.rows.add("ranges", n=n, service=median(ranges), samples=TRANSFERS)
    job = run.service.timed(run.stored(n))
    replies = [run.service.download(job.location) for _ in range(TRANSFERS + 1)][1:]
    run.service.delete(job.location)
    run.rows.add("reply", n=n, service=median(replies), samples=TRANSFERS)


def new_shapes(run: Run, count: int, share: float) -> None:
    """The extra time of the first job of a shape over the next two. Operands come with each job, so none is on the
    device before."""
    rng, ends_at = np.random.default_rng(SHAPES_SEED), run.budget.ends_at(share)
    over_ms: list[float] = []
    while len(over_ms) < count and (not over_ms or time.monotonic() < ends_at):
        m, n, k = (int(size) for size in np.exp(rng.uniform(np.log(MIN_SHAPE), np.log(MAX_SHAPE), 3)))
        request = run.service.inline(normal((m, k), m), normal((k, n), n), JSON)
        first, *others = (run.service.timed(request) for _ in range(REPEATS))
        for answer in (first, *others):
            run.service.delete(answer.location)
        over_ms.append(first.ms - median(other.ms for other in others))
    run.rows.add("new shape", service=median(over_ms), worst=max(over_ms), samples=len(over_ms))
