"""The recorded parts of docs/scaling.md: the object store, cells, and the cost of workers for a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.recorded import find, read
from benchmarks.tables.service.bounds import Bound
from tools.markdown import table

SHARE = Bound(0.8, 0.95, 1, more_is_better=True)
RATIO = Bound(3, 3.8, 4, more_is_better=True)
CELL_WORKERS, API_PROCESSES = 256, 16
UNDER_WAY = 4  # products that a GPU worker has a lease for at once
WANTED_PER_S, ENVELOPE, GPUS, LOAD = 1_000_000, 1000, 10_000, 0.5
HEARTBEATS_S = (0.5, 1.0, 2.0)
JUDGED = ("must", "aim", "limit", "")


def _read(results: Path, name: str) -> dict[str, Any] | None:
    path = find(results, f"scale_{name}")
    return read(path) if path else None


def _where(record: dict[str, Any]) -> str:
    said = record["environment"]
    return f"Recorded {said['recorded_at'][:10]} on {said['cpu']}, {said['cores']} cores."


def objects(results: Path) -> str:
    record = _read(results, "objects")
    if record is None:
        return ""
    rows = [
        (
            f"{row['bytes'] >> 20}",
            f"{row['server_gb_per_s']:.2f}",
            f"{row['store_gb_per_s']:.2f}",
            f"{row['share']:.2f}",
            *SHARE.cells,
            SHARE.verdict(row["share"]),
        )
        for row in record["sizes"]
    ]
    columns = ("MiB", "server's own ranges, GB/s", "fetched into a slot, GB/s", "share", *JUDGED)
    return "\n\n".join((_where(record), table(columns, rows).rstrip()))


def cells(results: Path) -> str:
    record = _read(results, "cells")
    if record is None:
        return ""
    row = (
        f"{record['cells']}",
        f"{record['one_per_s']:,.0f}",
        f"{record['all_per_s']:,.0f}",
        f"{record['ratio']:.2f}",
        *RATIO.cells,
        RATIO.verdict(record["ratio"]),
    )
    columns = ("cells", "one cell, products/s", "all together", "ratio", *JUDGED)
    return "\n\n".join((_where(record), table(columns, [row]).rstrip()))


def walls(results: Path) -> str:
    """The limits that follow from the cost of a job's life for very many jobs."""
    record = _read(results, "beats")
    if record is None:
        return ""
    life_us = sum(record["steps_us"].values())
    per_core = 1e6 / life_us
    cells_alone = WANTED_PER_S * life_us / 1e6 / LOAD
    envelopes = WANTED_PER_S / ENVELOPE
    said = (
        f"A job costs Redis {life_us:.0f} µs from its submission to the reading of its end ("
        + ", ".join(f"{name} {cost:.0f}" for name, cost in record["steps_us"].items())
        + f"), without the broker's commands: {per_core:,.0f} jobs/s on a core."
    )
    rows = (
        (f"{WANTED_PER_S:,} jobs/s, each a record", f"{cells_alone:,.0f} cells with Redis at {LOAD:.0%}"),
        (
            f"the same in batches of {ENVELOPE:,} (the batch axis): {envelopes:,.0f} jobs/s",
            f"{envelopes * life_us / 1e6:.0%} of a core: one cell",
        ),
        (f"{GPUS:,} GPUs, {CELL_WORKERS} a cell", f"{-(-GPUS // CELL_WORKERS)} cells"),
        ("renewals alone, all in one Redis", f"{GPUS * UNDER_WAY / 0.5 * record['renew_us'] / 1e6:.1f} cores"),
    )
    return "\n\n".join((_where(record), said, table(("load", "takes"), rows).rstrip()))


def beats(results: Path) -> str:
    record = _read(results, "beats")
    if record is None:
        return ""
    beat = CELL_WORKERS / record["beat_s"] * record["beat_us"]
    read = API_PROCESSES / record["read_every_s"] * record["read_us"] * CELL_WORKERS / record["workers"]
    rows = []
    for heartbeat_s in HEARTBEATS_S:
        renew = CELL_WORKERS * UNDER_WAY / heartbeat_s * record["renew_us"]
        parts = (renew, beat, read, renew + beat + read)
        carried = Bound(LOAD * 1e6).verdict(parts[-1])
        rows.append((f"{heartbeat_s:g}", *(f"{part / 1e4:.1f} %" for part in parts), carried))
    said = (
        f"A renewal costs Redis {record['renew_us']:.0f} µs, a worker's heartbeat {record['beat_us']:.0f} µs, reading "
        f"the register of {record['workers']} workers {record['read_us'] / 1e3:.2f} ms, and the API process that asks "
        f"{record['api_read_ms']:.1f} ms. For {CELL_WORKERS} GPUs with {UNDER_WAY} products under way each and "
        f"{API_PROCESSES} API processes, as shares of one core:"
    )
    columns = ("`MATMUL_HEARTBEAT_S`", "renewals", "heartbeats", "reading them", "together", f"≤ {LOAD:.0%}")
    return "\n\n".join((_where(record), said, table(columns, rows).rstrip()))
