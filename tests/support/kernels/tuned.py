"""Measured tables made for a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernels.catalog import BY_NAME
from kernels.model.kernel import DeviceTraits
from kernels.model.numerics import AccuracyName, DTypeName
from kernels.selection.tuned import Entry, RankedRow, Source, Trial, TunedTable

GPU = DeviceTraits("gpu", (9, 0), 232448, 132, "Test GPU")


def row(
    kernel: str, gflops: float, config: Mapping[str, int] | None = None, fraction: float | None = None
) -> RankedRow:
    return RankedRow(kernel=kernel, config=config or {}, gflops=gflops, fraction_of_baseline=fraction)


def entry(
    n: int,
    *,
    dtype: DTypeName = "float32",
    accuracy: AccuracyName = "fp32",
    batch: int = 1,
    rows: Sequence[RankedRow] = (row("cublas", 100.0),),
    baseline: str | None = None,
) -> Entry:
    """A square one."""
    return Entry(dtype=dtype, accuracy=accuracy, m=n, n=n, k=n, batch=batch, baseline=baseline, ranking=tuple(rows))


EMULATED = BY_NAME["fp32_emulated"]
PRODUCTS = (6, 7, 8, 10)  # that a tile takes at the least
SPEEDS = {6: 400.0, 7: 350.0, 8: 300.0, 10: 250.0}


def tried(n: int, *errors: float, library: float = 100.0) -> Entry:
    """As a curve of `fp32_emulated` leaves it: errors over the library's with six, seven, eight and ten products."""
    given = dict(zip(PRODUCTS, errors, strict=False))
    trials = tuple(
        Trial(
            kernel=EMULATED.name,
            config=EMULATED.resolve_config({"min_products": min_products}),
            gflops=SPEEDS[min_products],
            fraction_of_baseline=SPEEDS[min_products] / library,
            error_of_baseline=error,
        )
        for min_products, error in given.items()
    )
    exact = [row(EMULATED.name, one.gflops, one.config) for one in trials if one.is_as_exact]
    rows = sorted((*exact[:1], row("cublas", library)), key=lambda one: -one.gflops)
    return replace(entry(n, rows=rows, baseline="cublas"), trials=trials)


def table(device: str = "Test GPU", *, entries: Sequence[Entry] = (), **fields: Any) -> TunedTable:
    given: dict[str, Any] = {"device_class": "gpu", "compute_capability": (9, 0), "multiprocessors": 132}
    source = Source(file="made.json", date="2026-01-01T00:00:00+00:00")
    return TunedTable(device=device, sources=(source,), entries=tuple(entries), **(given | fields))
