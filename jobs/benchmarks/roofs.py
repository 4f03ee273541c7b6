"""A device's measured roofs, from the results of a `ceilings` benchmark."""

from __future__ import annotations

from collections.abc import Iterable

from jobs.benchmarks.records import Ceiling
from jobs.fleet.workers import Ceilings
from kernels.model.numerics import DTypeName


def measured_roofs(found: Iterable[Ceiling], before: Ceilings | None = None) -> Ceilings:
    """The highest roof for each element type, and for memory the highest one that bypasses the L2 cache. A value in
    `before` is kept unless a higher one was found. TF32 is not an element type, so its roof is left out.
    """
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
