"""A device's measured roofs, out of a `ceilings` benchmark."""

from __future__ import annotations

from collections.abc import Iterable

from jobs.benchmarks.records import Ceiling
from jobs.fleet.workers import Ceilings
from kernels.model.numerics import DTypeName


def measured_roofs(found: Iterable[Ceiling], before: Ceilings | None = None) -> Ceilings:
    """Of each element type the highest, of memory the highest that passes the L2. `before` holds where nothing higher
    was found. TF32 is no element type: its roof is left out."""
    before = before or Ceilings()
    gflops: dict[DTypeName, float] = dict(before.gflops)
    memory = before.memory_gb_s
    for one in found:
        if one.value is None:
            continue
        if one.unit == "GFLOPS" and one.dtype is not None and "tf32" not in one.name:
            gflops[one.dtype] = max(one.value, gflops.get(one.dtype, 0.0))
        elif one.unit == "GB/s" and one.name.startswith("dram"):
            memory = max(one.value, memory or 0.0)
    return Ceilings(memory_gb_s=memory, gflops=gflops)
