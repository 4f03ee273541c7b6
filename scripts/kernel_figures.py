"""Recorded figures of a kernel: those of the reports, and our own."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from kernels.published import PUBLISHED
from kernels.published_records import Publication, PublishedRecord
from scripts.markdown import table

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"


def published(kernel: str) -> str:
    """The best figure of each report that has the kernel."""
    found = [(publication, best) for publication in PUBLISHED.values() if (best := _best(publication, kernel))]
    if not found:
        return ""
    rows = (
        (
            publication.report or publication.title,
            best.label,
            publication.device.name or "not named" if best.device_class == "gpu" else "a CPU",
            f"{best.n}{' (inferred)' if best.size_inferred else ''}" if best.n else "not said",
            f"{'about ' if best.approximate else ''}{best.gflops:,.0f}",
        )
        for publication, best in found
    )
    head = ("Report", "Its name for it", "Measured on", "N", "GFLOPS")
    return "The best figure of each report that has it:\n\n" + table(head, rows)


def _best(publication: Publication, kernel: str) -> PublishedRecord | None:
    if publication.report is None:
        return None
    records = [record for record in publication.records if record.kernel == kernel and record.gflops is not None]
    return max(records, key=lambda record: record.gflops or 0, default=None)


@cache
def _runs(directory: Path) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(path.read_text("utf-8")) for path in sorted(directory.glob("*_catalogue.json")))


def is_measured() -> bool:
    return bool(_runs(RESULTS))


def measured(kernel: str) -> str:
    """Our own figures at the defaults, size by size, against cuBLAS of the same run."""
    return "\n".join(_measured_in(run, kernel) for run in _runs(RESULTS))


def _measured_in(run: dict[str, Any], kernel: str) -> str:
    records = [record for record in run["records"] if record["kernel"] == kernel]
    rows = (
        (
            record["dtype"],
            "{m} × {n} × {k}".format(**record) if len({record[side] for side in "mnk"}) > 1 else str(record["n"]),
            f"{record['kernel_ms']:.4g}",
            f"{record['gflops']:,.0f}",
            f"{record['fraction_of_cublas']:.3f}",
            f"{record['error_vs_float64']:.1e}",
            str(record.get("registers", "")),
            f"{record['occupancy']:.3g}" if "occupancy" in record else "",
        )
        for record in records
    )
    head = ("Type", "N", "Kernel, ms", "GFLOPS", "Of cuBLAS", "Error", "Registers", "Occupancy")
    where = f"Measured on an {run['device']['name']}, {run['environment']['recorded_at']}"
    return f"{where}, at the defaults of each size:\n\n{table(head, rows)}" if records else ""


def measured_at(kernel: str, size: int) -> str:
    """GFLOPS and fraction of cuBLAS of a square product; empty where there is none."""
    for record in (record for run in _runs(RESULTS) for record in run["records"]):
        if record["kernel"] == kernel and all(record[side] == size for side in "mnk"):
            return f"{record['gflops']:,.0f}, {record['fraction_of_cublas']:.2f}"
    return ""
