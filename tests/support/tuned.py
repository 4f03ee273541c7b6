"""Measured tables made for a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernels.kernel import DeviceTraits
from kernels.numerics import AccuracyName, DTypeName
from kernels.tuned import Entry, Row, Source, TunedTable

GPU = DeviceTraits("gpu", (9, 0), 232448, 132, "Test GPU")


def row(kernel: str, gflops: float, config: Mapping[str, int] | None = None, fraction: float | None = None) -> Row:
    return Row(kernel=kernel, config=config or {}, gflops=gflops, fraction_of_baseline=fraction)


def entry(
    n: int,
    *,
    dtype: DTypeName = "float32",
    accuracy: AccuracyName = "fp32",
    batch: int = 1,
    rows: Sequence[Row] = (row("cublas", 100.0),),
    baseline: str | None = None,
) -> Entry:
    """A square one."""
    return Entry(dtype=dtype, accuracy=accuracy, m=n, n=n, k=n, batch=batch, baseline=baseline, ranking=tuple(rows))


def table(device: str = "Test GPU", *, entries: Sequence[Entry] = (), **fields: Any) -> TunedTable:
    given: dict[str, Any] = {"device_class": "gpu", "compute_capability": (9, 0), "multiprocessors": 132}
    source = Source(file="made.json", date="2026-01-01T00:00:00+00:00")
    return TunedTable(device=device, sources=(source,), entries=tuple(entries), **(given | fields))
