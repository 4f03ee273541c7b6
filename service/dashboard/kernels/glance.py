"""The catalogue at a glance: families, each kernel with one figure at its own element type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from jobs.fleet.workers import WorkerInfo
from kernels.catalog import BY_NAME
from kernels.families import FAMILIES, Family, rung_before
from kernels.model.kernel import Kernel
from kernels.model.numerics import DTypeName
from kernels.selection.tuned import TABLES, BestResult, Entry, best_results
from service.catalogue import KernelView, view
from service.dashboard.kernels.story import AccessPicture, Changes, changes_of, picture_of


@dataclass(frozen=True, slots=True)
class Rung:
    """A kernel in its family. `over_before`: on the ladder, its speed divided by the previous rung's, for one
    product.
    """

    view: KernelView
    headline: BestResult | None
    best: tuple[BestResult, ...]  # one for each device
    over_before: float | None
    picture: AccessPicture | None
    changes: Changes | None


@dataclass(frozen=True, slots=True)
class FamilyView:
    """A family of kernels. `compared_at`: the product at which rungs are compared."""

    family: Family
    rungs: tuple[Rung, ...]
    compared_at: Entry | None


def families_of(workers: Sequence[WorkerInfo]) -> list[FamilyView]:
    return [_family(family, workers) for family in FAMILIES]


def _family(family: Family, workers: Sequence[WorkerInfo]) -> FamilyView:
    entry = _ladder_entry() if family.steps else None
    speeds = {row.kernel: row.gflops for row in entry.ranking} if entry else {}
    rungs = tuple(_rung(BY_NAME[name], family, speeds, workers) for name in family.names)
    return FamilyView(family, rungs, entry)


def _rung(kernel: Kernel, family: Family, speeds: dict[str, float], workers: Sequence[WorkerInfo]) -> Rung:
    before = rung_before(kernel.name)
    over = speeds[kernel.name] / speeds[before] if before in speeds and kernel.name in speeds else None
    return Rung(
        view(kernel, workers),
        _headline(kernel.name, by_fraction=family.name == "small"),
        best_by_device(kernel.name),
        over,
        picture_of(kernel.name),
        changes_of(kernel.name),
    )


def main_dtype(kernel: Kernel) -> DTypeName:
    """The element type for which the kernel's figures are shown."""
    return "float32" if "float32" in kernel.dtypes else kernel.dtypes[0]


@cache
def _headline(name: str, *, by_fraction: bool) -> BestResult | None:
    """The kernel's best result at its main element type: the fastest or, for small-product kernels, the one farthest
    ahead of the library.
    """
    found = [best for best in best_results(name) if best.entry.dtype == main_dtype(BY_NAME[name])]
    if by_fraction:
        found = [best for best in found if best.fraction_of_library] or found
        return max(found, key=lambda best: best.fraction_of_library or 0.0, default=None)
    return max(found, key=lambda best: best.row.gflops, default=None)


@cache
def _ladder_entry() -> Entry | None:
    """The product at which most rungs were measured; among several, the one with the most work."""
    ladder = {name for family in FAMILIES if family.steps for name in family.names}
    entries = [entry for table in TABLES for entry in table.entries]
    return max(
        entries,
        key=lambda entry: (sum(row.kernel in ladder for row in entry.ranking), entry.problem.flops),
        default=None,
    )


@cache
def best_by_device(name: str) -> tuple[BestResult, ...]:
    """The kernel's fastest result in its main element type, for each device."""
    dtype = main_dtype(BY_NAME[name])
    found: Sequence[BestResult] = [best for best in best_results(name) if best.entry.dtype == dtype]
    devices = dict.fromkeys(best.device for best in found)
    return tuple(max((b for b in found if b.device == device), key=lambda best: best.row.gflops) for device in devices)
