"""The speed of a kernel for large products such as tiles, from its measurements."""

from __future__ import annotations

from collections.abc import Iterable

from kernels.model.kernel import DeviceTraits
from kernels.model.numerics import DTypeName
from kernels.selection.tuned import TABLES, TunedTable, tables_for

SUSTAINED = 0.95  # of its best, in products that last for seconds


def measured_flops(
    kernel: str, dtype: DTypeName, device: DeviceTraits, tables: Iterable[TunedTable] = TABLES
) -> float | None:
    """Operations a second. Of a device's family the best counts: large products are not in every model's table. None
    where no table knows the kernel."""
    rows = (
        row.gflops
        for table in tables_for(device, tables)
        for entry in table.entries
        if entry.dtype == dtype
        for row in entry.ranking
        if row.kernel == kernel
    )
    best = max(rows, default=0.0)
    return SUSTAINED * best * 1e9 if best else None
