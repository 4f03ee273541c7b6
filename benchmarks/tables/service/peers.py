"""The section of docs/performance.md on `make bench-peers`: the service, PyTriton and a naive service on a CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.tables.service.bounds import Bound, before, figure, first_and_newest, host, in_order, span
from tools.markdown import table

# By clients and N: the service's time, or products per second, over PyTriton's.
BOUNDS = {
    (1, 16): Bound(1.5, 1.0),
    (1, 256): Bound(1.15, 0.9),
    (1, 1024): Bound(0.5, 0.35),
    (1, 2048): Bound(0.6, 0.5),
    (16, 16): Bound(1.2, 4.0, more_is_better=True),
    (16, 256): Bound(1.2, 2.0, more_is_better=True),
}
SERVER_TIME = Bound(150.0, 60.0)
OTHERS = ("pytriton", "pytriton, our client", "naive")
HOW = (
    "Float32 products over HTTP: all servers run at the same time on the same cores with {threads} BLAS thread each, "
    "and take turns in rounds; medians. Ratio: the service over PyTriton, the median of the rounds' own. PyTriton {of} "
    "has a numpy model and is called with `tritonclient`, and with the lean client that the service and the naive "
    "service are called with. The naive service is `benchmarks/peers/naive.py`: FastAPI and Celery with matrices in "
    "the messages. Only ours checks its products."
)
OTHER_RUNS = (
    "Other runs: the ratios of {count} earlier ones on a host of that kind. A target counts by the newest alone."
)
SERVER_HOW = (
    "What one small product costs Valkey, less what it does idle, with one client: commands by their own execution "
    "time, Lua in it; processor time of its one thread, with reading, writing and the log."
)


def peers(paths: Sequence[Path], where: str) -> Iterator[str]:
    """The parts of the section. `where` describes the newest record's machine."""
    first, newest = first_and_newest(paths)
    yield "## The service beside its peers"
    of = f"{newest['pytriton']['nvidia-pytriton']}" if newest["pytriton"] else "(not measured in this run)"
    yield HOW.format(threads=newest["threads"], of=of)
    load, niceness = newest["load_before"][0], newest["niceness"]
    yield f"{where} Other work on the machine had a load average of {load:g}; the run had niceness {niceness}."
    if first is not None:
        yield f"{before(first)}."
    others = [each for each in in_order(paths)[1:-1] if host(each) == host(newest)]
    if others:
        yield OTHER_RUNS.format(count=len(others))
    yield _clients(1, "ms", first, newest, others)
    yield _clients(16, "products/s", first, newest, others)
    yield SERVER_HOW
    yield _server_time(first, newest)


def _clients(
    clients: int, unit: str, first: dict[str, Any] | None, newest: dict[str, Any], others: Sequence[dict[str, Any]]
) -> str:
    names = [f"{name}, {unit}" for name in ("service", "PyTriton", "PyTriton by our client", "naive service")]
    earlier = (*(("other runs",) if others else ()), *(("before",) if first else ()))
    rows = []
    for n in (n for of, n in BOUNDS if of == clients):
        ratio, bound = _ratio(newest, clients, n), BOUNDS[clients, n]
        rows.append(
            (
                f"{n}",
                *(figure(_typical(newest, clients, n, name)) for name in ("service", *OTHERS)),
                figure(ratio),
                *([span(list(filter(None, (_ratio(one, clients, n) for one in others))))] if others else []),
                *([figure(_ratio(first, clients, n))] if first else []),
                *bound.cells[:2],
                "" if ratio is None else bound.verdict(ratio),
            )
        )
    label = "one client: N" if clients == 1 else f"{clients} clients: N"
    return table((label, *names, "ratio to PyTriton", *earlier, "must", "aim", ""), rows).rstrip()


def _rounds(record: dict[str, Any], clients: int, n: int, server: str) -> list[float] | None:
    wanted = (clients, n, server)
    return next((row["rounds"] for row in record["rows"] if (row["clients"], row["n"], row["server"]) == wanted), None)


def _typical(record: dict[str, Any], clients: int, n: int, server: str) -> float | None:
    rounds = _rounds(record, clients, n, server)
    return median(rounds) if rounds else None


def _ratio(record: dict[str, Any], clients: int, n: int) -> float | None:
    ours, theirs = (_rounds(record, clients, n, server) for server in ("service", "pytriton"))
    return median(a / b for a, b in zip(ours, theirs, strict=True)) if ours and theirs else None


def _server_time(first: dict[str, Any] | None, newest: dict[str, Any]) -> str:
    now, then = newest["server_time"], first["server_time"] if first else None
    rows = []
    for what, name, bound in (
        ("all commands, µs a product", "commands_us", SERVER_TIME),
        ("of that in scripts, µs", "scripts_us", None),
        ("processor time, µs a product", "cpu_us", None),
        ("commands a product, without those in scripts", "commands", None),
    ):
        cells = (*bound.cells[:2], bound.verdict(now[name])) if bound else ("", "", "")
        rows.append((what, figure(now[name]), *([figure(then[name])] if then else []), *cells))
    return table(("ledger, index and broker", "this run", *(("before",) if then else ()), "must", "aim", ""), rows)
