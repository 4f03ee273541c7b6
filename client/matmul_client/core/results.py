"""The results of a benchmark: points as they arrive, and the whole result, which a notebook shows as a table and a
plot.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matmul_client.core.events import Event

COLUMNS = ("kernel", "config", "dtype", "m", "n", "k", "batch", "kernel_ms", "gflops", "status")


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement. `gflops` is None if there is no figure; `status` says why."""

    kernel: str
    dtype: str
    m: int
    n: int
    k: int
    status: str
    gflops: float | None
    done: int
    total: int
    eta_s: float | None
    batch: int = 1


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing, as a notebook shows it."""

    svg: str

    def _repr_html_(self) -> str:
        """The plot as an image, so that nothing in it can act on the page."""
        return f'<img src="data:image/svg+xml;base64,{base64.b64encode(self.svg.encode()).decode()}" alt="plot">'

    def save(self, path: str | Path) -> None:
        Path(path).write_text(self.svg, encoding="utf-8")


class BenchmarkResult:
    """The whole result. `records` has a row for each case, which pandas.json_normalize makes a table of."""

    def __init__(self, document: dict[str, Any], drawn: str | None) -> None:
        self._document = document
        self._drawn = drawn

    @property
    def job_id(self) -> str:
        return str(self._document["job"]["id"])

    @property
    def records(self) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = self._document["records"]
        return records

    @property
    def warnings(self) -> Sequence[str]:
        """Conditions that may have disturbed the measurements."""
        return list(self._document["warnings"])

    @property
    def plot(self) -> Plot | None:
        """Speed by size; None where the service cannot draw."""
        return None if self._drawn is None else Plot(self._drawn)

    def to_dict(self) -> dict[str, Any]:
        """The whole document, as the service sent it."""
        return self._document

    def __repr__(self) -> str:
        return f"<BenchmarkResult {self.job_id}: {len(self.records)} cases>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in COLUMNS)
        rows = "".join(f"<tr>{_cells(record)}</tr>" for record in self.records)
        drawn = self.plot._repr_html_() if self.plot else ""
        return f"{drawn}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cells(record: dict[str, Any]) -> str:
    return "".join(f"<td>{html.escape(shown(record.get(name)))}</td>" for name in COLUMNS)


def shown(value: Any) -> str:
    """A field of a record in a table."""
    match value:
        case None:
            return "–"
        case float():
            return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
        case list():
            return " ".join(map(str, value))
        case dict():
            return " ".join(f"{name}={number}" for name, number in value.items()) or "–"
    return str(value)


def point_of(event: Event) -> Point | None:
    """The measurement that an event carries; None for other events."""
    found, progress = event.data.get("found") or {}, event.data.get("progress") or {}
    if "kernel" not in found or "status" not in found:
        return None
    return Point(
        kernel=found["kernel"],
        dtype=found["dtype"],
        m=found["m"],
        n=found["n"],
        k=found["k"],
        status=found["status"],
        gflops=found.get("gflops"),
        done=progress["done"],
        total=progress["total"],
        eta_s=progress.get("eta_s"),
        batch=found.get("batch", 1),
    )


def record_html(record: dict[str, Any], url: str) -> str:
    """A job as a notebook shows it."""
    job_id, link = html.escape(record["id"]), html.escape(f"{url}/ui/jobs/{record['id']}", quote=True)
    progress = record["progress"]
    figures = [
        record["state"],
        f"{progress['done']} of {progress['total']}" if record["state"] == "running" else "",
        f"kernel {record['kernel']}" if record["kernel"] else "",
        f"{shown(record['gflops'])} GFLOPS" if record["gflops"] else "",
        (record["error"] or {}).get("detail", ""),
    ]
    return f'<a href="{link}">{job_id}</a>: {html.escape(", ".join(filter(None, figures)))}'
