"""How far `auto` is from the best kernel at shapes it has not seen: each shape of a recorded table is left out in turn.

    python -m benchmarks.cross_validate

What `auto` takes for the shape from the rest of the table is held against what was measured there; and what a worker
would take that probes its contenders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from benchmarks.measure.auto_sample import geometric_mean
from kernels.catalog import BY_NAME
from kernels.selection.choose import Choice, choose_from, contenders, worth_of
from kernels.selection.forecast import Forecast, SpeedPoint
from kernels.selection.tuned import TABLES, Entry, RankedRow, Trial, TunedTable

MAX_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Held:
    """A shape that was left out, and what was taken for it."""

    entry: Entry
    kernel: str
    why: str
    of_best: float  # its speed over that of the fastest there
    of_library: float | None  # and over the library's
    is_as_exact: bool  # as the library
    probed: float  # of the fastest's speed, if the contenders were measured first


def validated(table: TunedTable, every: int = 1) -> Iterator[Held]:
    """Shapes where several kernels were measured, and among them the one that was taken; one in `every` of them."""
    for entry in table.entries[::every]:
        if len(entry.ranking) < 2:
            continue
        rest = replace(table, entries=tuple(one for one in table.entries if one.shape != entry.shape))
        taken = choose_from([rest], entry.problem, entry.accuracy, table.traits)
        if (row := _measured(entry, taken)) is not None:
            library = next((one.gflops for one in entry.ranking if one.kernel == entry.baseline), None)
            likely = contenders(entry.problem, entry.accuracy, table.traits, [rest])
            yield Held(
                entry=entry,
                kernel=taken.kernel.name,
                why=taken.why,
                of_best=min(row.gflops / _best_gflops(entry), 1.0),
                of_library=row.gflops / library if library else None,
                is_as_exact=_is_as_exact(row),
                probed=_probed(entry, row, likely),
            )


def _probed(entry: Entry, taken: RankedRow, likely: Iterable[Forecast]) -> float:
    """`taken` is what tables alone say."""
    rows = [row for one in likely if (row := _measured(entry, one.point)) is not None]
    rows += [taken, *(row for row in entry.ranking if row.kernel == entry.baseline)]
    return min(max(row.gflops for row in rows if _is_as_exact(row)) / _best_gflops(entry), 1.0)


def _best_gflops(entry: Entry) -> float:
    """Of kernels that `auto` would take if it knew their speeds."""
    worth = {row.kernel: worth_of(BY_NAME[row.kernel]) for row in entry.ranking}
    steady = max(row.gflops for row in entry.ranking if worth[row.kernel] is None)
    return max(row.gflops for row in entry.ranking if row.gflops >= (worth[row.kernel] or 0.0) * steady)


def _is_as_exact(row: RankedRow) -> bool:
    return row.is_as_exact if isinstance(row, Trial) else True


def _measured(entry: Entry, taken: Choice | SpeedPoint) -> RankedRow | None:
    """The kernel's best config; of one that is tried in each the very config, which may be less exact than the library
    and so not ranked."""
    if taken.kernel.emulated_with is None:
        return next((row for row in entry.ranking if row.kernel == taken.kernel.name), None)
    alike = (row for row in entry.trials if row.kernel == taken.kernel.name)
    return next((row for row in alike if taken.kernel.resolve_config(row.config) == taken.config), None)


def main() -> None:
    for table in TABLES:
        held = list(validated(table))
        over = [one.of_library for one in held if one.of_library is not None]
        print(f"{table.device}: {len(held)} shapes left out in turn")
        print(f"of the best: {geometric_mean([one.of_best for one in held]):.3f}")
        print(f"over the library: {geometric_mean(over):.3f}, worst {min(over):.3f}")
        print(f"less exact than the library: {sum(not one.is_as_exact for one in held)}")
        print(f"of the best, probed: {geometric_mean([one.probed for one in held]):.3f}")
        for one in sorted(held, key=lambda one: one.of_best)[:MAX_SHOWN]:
            print(f"{one.of_best:.3f} {one.entry.dtype} {one.entry.shape} {one.kernel}: {one.why}")


if __name__ == "__main__":
    main()
