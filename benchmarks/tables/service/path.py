"""The section of docs/performance.md on `make bench-path`: the path of a product compared with the bare path through
the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tables.service.bounds import Bound, before, figure, first_and_newest, host, in_order, span
from benchmarks.tables.service.path_steps import STEPS, times
from tools.markdown import table

Row = dict[str, Any]
_H2D = Bound(40, 50, 55, more_is_better=True)
# By line and N, on an H200 host.
BOUNDS = {
    ("stored", 16): Bound(3, 1.5),
    ("stored", 4096): Bound(7, 4.5, 2.1),
    ("stored", 8192): Bound(22, 14, 9.8),
    ("queued", 4096): Bound(400, 700, 801, more_is_better=True),
    ("queued", 8192): Bound(110, 170, 194, more_is_better=True),
    ("inline", 16): Bound(3.5, 2),
    ("inline", 1024): Bound(10, 6),
    ("inline", 4096): Bound(130, 80),
    ("inline", 8192): Bound(520, 320),
    ("clients", 16): Bound(3000, 8000, more_is_better=True),
    ("batch", 64): Bound(0.5e6, 1e6, 1.1e6, more_is_better=True),
    ("h2d", 4096): _H2D,
    ("h2d", 8192): _H2D,
    ("over one", 256): Bound(1.8, 1.95, 2, more_is_better=True),
    ("over one", 1024): Bound(1.8, 1.95, 2, more_is_better=True),
    ("over one", 4096): Bound(1.85, 1.95, 2, more_is_better=True),
    ("first job, median", None): Bound(5),
    ("first job, worst", None): Bound(50),
}
WHAT = {
    "stored": "stored references, one at a time, no product back, ms",
    "stored first": "the same, first of a turn",
    "queued": "stored references, {count} queued, no product back, products/s",
    "inline": ".npy both ways, ms",
    "inline first": "the same, first of a turn",
    "clients": "{count} clients, .npy both ways, products/s",
    "batch": "{count:,} products in one request, stored references, products/s",
    "h2d": "operands from host memory to the device, GB/s",
    "upload": "upload under its sha256, GB/s",
    "ranges": "the same in ranges over four connections, GB/s",
    "reply": "a product's reply, GB/s",
    "two workers": "two workers, stored references, {count} queued, products/s",
    "over one": "two workers over one, times",
    "first job, median": "first job of a shape over the next, ms, median of {samples} shapes",
    "first job, worst": "the same, worst shape",
}
HOW = (
    "Float32 products of the kernel that `auto` takes, by way of {api_processes} and one worker on the same host; "
    "medians. Service, bare path and minimal peer take turns of {in_a_row}. Bare path: cuBLAS through CuPy in one "
    "process, with copies from and to page-locked memory: of fresh operands beside `.npy both ways` and the batch, of "
    "resident operands beside stored references. Minimal peer: `benchmarks/peers/minimal.py`, twenty lines of FastAPI "
    "and CuPy with raw bytes in and out, no queue, no check, no record. Limit: what a probe reached without a service, "
    "or PCIe by arithmetic."
)
OTHERS = (
    "Other runs: {count} in the same turns, on {hosts}. Hosts differ by more than versions of the service do "
    "([decision 99](decisions/0099-turns-of-several-products.md))."
)
ABSENT = (
    "A line without a figure in the column of the service was not measured in this run; its verdict is of the last run "
    "that has one."
)
TWO_HOW = (
    "Products that are asked for at once, of one worker and then of two on the same host, each with a GPU of its own, "
    "by way of {api_processes}; medians. Bare path: cuBLAS through CuPy on one GPU."
)
STEPS_HOW = (
    "Where the time of a product of stored references goes, in milliseconds. Queue: until a worker's claim. Open: "
    "operands found and mapped. Store: the product stored, without its copy from the device. Rest: all else that the "
    "caller waits for: HTTP, the ledger, launching, telling the end. It is negative where steps overlap."
)


def path(name: str, paths: Sequence[Path], where: str) -> Iterator[str]:
    """The parts of the section. `where` describes the newest record's machine, and `name` is the picture's, without its
    suffix."""
    first, newest = first_and_newest(paths)
    if any(row["line"] == "stored" for row in newest["rows"]):
        yield f"## The way of a product on an {newest['device']}"
        yield HOW.format(api_processes=_api_processes(newest), in_a_row=_in_a_row(newest))
    else:
        yield f"## Two workers on two GPUs: {newest['device']}"
        yield TWO_HOW.format(api_processes=_api_processes(newest))
    yield f"{where} By `make bench-path`; load average before: {newest['load_before'][0]:g}."
    others = _others(paths)
    if others:
        yield OTHERS.format(count=len(others), hosts=_hosts(others, newest))
    if first is not None:
        yield _before(first, newest)
    if _absent(newest, others):
        yield ABSENT
    yield _lines(first, newest, others)
    steps = [row for row in newest["rows"] if row["line"] == "steps"]
    if steps:
        yield STEPS_HOW
        yield f"![Where a product's time goes](images/{name}.svg)"
        yield table(("N", *STEPS, "all"), [_step_row(row) for row in steps]).rstrip()


def _others(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Records that are comparable with the newest one."""
    *others, newest = in_order(paths)
    return [each for each in others if newest.get("in_a_row") == each.get("in_a_row", 1)]


def _hosts(others: Sequence[dict[str, Any]], newest: dict[str, Any]) -> str:
    kinds = sorted({host(each) for each in others})
    return "a host of that kind, maybe another one" if kinds == [host(newest)] else f"these hosts: {'; '.join(kinds)}"


def _before(first: dict[str, Any], newest: dict[str, Any]) -> str:
    """The first record, and in what it was not measured like the newest."""
    told = f"{before(first)}, by way of {_api_processes(first)}"
    if first.get("in_a_row", 1) == newest.get("in_a_row", 1):
        return f"{told}."
    return f"{told}, in turns of {_in_a_row(first)}: what compares with it is the first of a turn."


def _api_processes(record: dict[str, Any]) -> str:
    """Records from the time of a single process do not state it."""
    count = record.get("api_processes", 1)
    return "one API process" if count == 1 else f"{count} API processes"


def _in_a_row(record: dict[str, Any]) -> str:
    """Until 2026-11-27 each took one product a turn."""
    count = record.get("in_a_row", 1)
    several = f"{count} products; a turn's first finds caches and processors as the others left them"
    return "one product" if count == 1 else several


def _step_row(row: Row) -> tuple[str, ...]:
    return (f"{row['n']}", *(f"{ms:.2f}" for ms in times(row).values()), f"{row['caller_ms']:.2f}")


def _lines(first: dict[str, Any] | None, newest: dict[str, Any], others: Sequence[dict[str, Any]]) -> str:
    then, beside, rows = _by_line(first) if first else {}, [_by_line(each) for each in others], []
    absent = _absent(newest, others)
    for row in _in_order([*_with_ratios(newest["rows"]), *absent]):
        key = row["line"], row.get("n")
        bound = BOUNDS.get(key)
        cells = (*bound.cells, bound.verdict(row["service"])) if bound else ("", "", "", "")
        earlier = [figure(then.get(key))] if first else []
        elsewhere = [span([each[key] for each in beside if key in each])] if beside else []
        peers = (figure(row.get(name)) for name in ("bare", "minimal"))
        here = ("", "", "") if row in absent else (_service_cell(row), *peers)
        what, n = WHAT[row["line"]].format(**row), "" if key[1] is None else str(key[1])
        rows.append((what, n, here[0], *elsewhere, *here[1:], *earlier, *cells))
    others_head, before_head = ("other runs",) if others else (), ("before",) if first else ()
    heads = ("what", "N", "service", *others_head, "bare path", "minimal peer", *before_head, "must", "aim", "limit")
    return table((*heads, ""), rows).rstrip()


def _absent(newest: dict[str, Any], others: Sequence[dict[str, Any]]) -> list[Row]:
    """Lines that the newest record does not have, as the last of the others has them."""
    measured = _by_line(newest)
    found = {(row["line"], row.get("n")): row for each in others for row in _with_ratios(each["rows"])}
    return [row for key, row in found.items() if key not in measured]


def _by_line(record: dict[str, Any]) -> dict[tuple[str, int | None], float]:
    return {(row["line"], row.get("n")): row["service"] for row in _with_ratios(record["rows"])}


def _service_cell(row: Row) -> str:
    if row["line"] != "queued":
        return figure(row["service"])
    return f"{figure(row['service'])} ({figure(2 * row['n'] ** 3 * row['service'] / 1e12)} TFLOP/s)"


def _with_ratios(rows: Sequence[Row]) -> Iterator[Row]:
    """In the order of WHAT: the recorded lines, and those computed from two figures."""
    one = {row["n"]: row["service"] for row in rows if row["line"] == "queued"}
    found: list[Row] = []
    for row in rows:
        if row["line"] == "two workers":
            found.append(row)
            if row["n"] in one:
                found.append({"line": "over one", "n": row["n"], "service": row["service"] / one[row["n"]]})
        elif row["line"] == "new shape":
            found.append(row | {"line": "first job, median"})
            found.append({"line": "first job, worst", "service": row["worst"]})
        elif row["line"] != "steps":
            found.append(row)
            if "first" in row:
                found.append({"line": f"{row['line']} first", "n": row["n"], "service": row["first"]})
    yield from _in_order(found)


def _in_order(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: list(WHAT).index(row["line"]))
