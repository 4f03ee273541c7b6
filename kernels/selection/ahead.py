"""The kernels that `auto` may choose on a device for future shapes, to be compiled ahead of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from kernels.catalog import BY_NAME, CATALOG
from kernels.model.buckets import EXAMPLES
from kernels.model.entry.config import NO_CONFIG, ConfigError, TileConfig
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice, NoKernelError
from kernels.selection.choose import choose_from
from kernels.selection.defaults import example
from kernels.selection.nearby import family_of, table_for
from kernels.selection.tuned import TABLES, Entry, RankedRow, TunedTable

AHEAD = "It is compiled before it is asked for."
MIN_SPEED = 0.8  # share of the fastest speed at a shape; slower configs are not chosen nearby
NEAR_EACH_CLASS = 16  # shapes


def likely_products(device: DeviceTraits, tables: Iterable[TunedTable] = TABLES) -> Iterator[tuple[Choice, Problem]]:
    """Every config of our kernels that was nearly the fastest at a shape of the tables that serve the device, and then
    the entries' defaults."""
    seen: set[tuple[object, ...]] = set()
    for entry in (entry for table in sorted(family_of(device, tables), key=_name) for entry in table.entries):
        for row in (*entry.ranking, *entry.trials):
            if row.gflops < MIN_SPEED * entry.ranking[0].gflops:
                continue
            kernel = BY_NAME[row.kernel]
            if not isinstance(kernel, CudaKernel) or kernel.unsupported_because(device, entry.dtype):
                continue
            config = _resolved(kernel, row, entry, device)
            key = row.kernel, entry.dtype, tuple(row.config.items()), _macros(kernel, config, entry.problem)
            if config is not None and key not in seen:
                seen.add(key)
                yield Choice(kernel, config, AHEAD), entry.problem
    for kernel in CATALOG:
        if isinstance(kernel, CudaKernel):
            yield from _defaults(kernel, device)


def _macros(kernel: CudaKernel, config: TileConfig | None, problem: Problem) -> tuple[str, ...]:
    """The macros of a kernel that has another program for some products."""
    workspace = None if config is None or kernel.workspace is None else kernel.plan(problem, config).workspace
    return () if workspace is None else workspace.macros


def _name(table: TunedTable) -> str:
    """Tables in one order for all devices of a family, so that each has the same programs."""
    return table.device


def _resolved(kernel: CudaKernel, row: RankedRow, entry: Entry, device: DeviceTraits) -> TileConfig | None:
    """The complete config; None if the kernel has changed since it was measured."""
    try:
        return kernel.resolve_config(row.config, entry.problem, device)
    except ConfigError:
        return None


def _defaults(kernel: CudaKernel, device: DeviceTraits) -> Iterator[tuple[Choice, Problem]]:
    """The default configs for each element type and size of product."""
    for dtype in kernel.dtypes:
        if kernel.unsupported_because(device, dtype) is None:
            for bucket in EXAMPLES:
                problem = example(bucket, dtype)
                yield Choice(kernel, kernel.resolve_config(NO_CONFIG, problem, device), AHEAD), problem


def warm_up(device: DeviceTraits, tables: Iterable[TunedTable] = TABLES) -> int:
    """Fills caches by choosing a kernel once near every few shapes of the device's table, before the first product
    arrives; returns the number of choices.
    """
    table = table_for(device, tables)
    by_class: dict[tuple[str, str], list[Entry]] = {}
    for entry in table.entries if table is not None else ():
        by_class.setdefault((entry.dtype, entry.accuracy), []).append(entry)
    near = [entry for entries in by_class.values() for entry in entries[:: -(-len(entries) // NEAR_EACH_CLASS)]]
    for entry in near:
        with suppress(NoKernelError):  # all that multiply such operands may be left out there
            choose_from(TABLES, replace(entry.problem, k=entry.k + 1), entry.accuracy, device)
    return len(near)
