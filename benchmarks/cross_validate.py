"""How far `auto` is from the best kernel at shapes it has not seen: recorded shapes are left out of the tables.

    python -m benchmarks.cross_validate [--samples]

What `auto` takes for a shape, given the rest of the table, is compared with what was measured there; so is what a
worker would take that probes its contenders. A tenth of all shapes is left out at a time, or with --samples all shapes
of a recorded sample of random products. If the library's best was measured, speeds relative to it are shown by class.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from benchmarks.measure.auto_sample import geometric_mean
from benchmarks.recorded import files
from benchmarks.tuned_table import RESULTS, documents, tables
from kernels.catalog import BY_NAME
from kernels.model.kernel import DeviceTraits, LibraryKernel
from kernels.selection.candidates import Choice
from kernels.selection.choose import choose_from, contenders
from kernels.selection.cost_model.configs import as_measured
from kernels.selection.cost_model.model import at_its_best
from kernels.selection.fallbacks import worth_it
from kernels.selection.nearby import shared
from kernels.selection.points import SpeedPoint
from kernels.selection.tuned import TABLES, Entry, RankedRow, Trial, TunedTable

MAX_SHOWN = 10
FOLDS = 10
NOT_MUCH_LESS = 0.95


@dataclass(frozen=True, slots=True)
class Held:
    """A shape that was left out, and what `auto` took for it."""

    entry: Entry
    kernel: str
    why: str
    of_best: float  # its speed over the fastest kernel's
    of_library: float | None  # its speed over the library's
    of_best_library: float | None  # its speed over the library's best, if that was measured
    best_of_library: float | None  # the fastest kernel's speed over the library's best
    row: RankedRow  # as it was measured
    rest: TunedTable  # without the shapes that were left out

    @property
    def is_as_exact(self) -> bool:
        """Whether it is as exact as the library."""
        return _is_as_exact(self.row)

    def probed(self) -> float:
        """Speed over the fastest's, if the contenders are measured first. It takes as long as all else."""
        return _probed(self.entry, self.row, self.rest)


def validated(table: TunedTable, every: int = 1) -> Iterator[Held]:
    """One shape in FOLDS left out at a time; of these folds only every `every`-th."""
    for number in range(0, FOLDS, every):
        yield from fold(table, number)


def fold(table: TunedTable, number: int, *, of_tried: bool = False) -> Iterator[Held]:
    """One of FOLDS. `of_tried`: only shapes where configs of a kernel were tried that may be less exact than the
    library; the others are left out all the same."""
    shapes = set(list(dict.fromkeys(entry.shape for entry in table.entries))[number::FOLDS])
    yield from held_out([entry for entry in table.entries if entry.shape in shapes], table, of_tried=of_tried)


def samples(table: TunedTable) -> Iterator[tuple[str, tuple[Held, ...]]]:
    """Each recorded sample of random products of that device, by its file, left out as a whole."""
    for path in files(RESULTS, "*_auto/*"):
        for sample in tables(documents([path])):
            if sample.device == table.device:
                yield path.name, tuple(held_out(sample.entries, table))


def held_out(entries: Collection[Entry], table: TunedTable, *, of_tried: bool = False) -> Iterator[Held]:
    """Shapes at which several kernels were measured, among them the one that is taken without any of these shapes.
    `of_tried` as for `fold`."""
    shapes = {entry.shape for entry in entries}
    whole = shared(table)
    rest = replace(whole, entries=tuple(one for one in whole.entries if one.shape not in shapes))
    for entry in entries:
        if len(entry.ranking) < 2 or (of_tried and not entry.trials):
            continue
        taken = choose_from([rest], entry.problem, entry.accuracy, table.traits)
        if (row := _measured(entry, taken, table.traits)) is None:
            continue
        library = next((one.gflops for one in entry.ranking if one.kernel == entry.baseline), None)
        at_best = _library_at_its_best(entry)
        yield Held(
            entry=entry,
            kernel=taken.kernel.name,
            why=taken.why,
            of_best=min(row.gflops / _best_gflops(entry), 1.0),
            of_library=row.gflops / library if library else None,
            of_best_library=row.gflops / at_best if at_best else None,
            best_of_library=_best_gflops(entry) / at_best if at_best else None,
            row=row,
            rest=rest,
        )


def _library_at_its_best(entry: Entry) -> float | None:
    """None if only its default choice was measured."""
    kernels = ((BY_NAME[row.kernel], row.gflops) for row in entry.ranking)
    libraries = [(kernel, gflops) for kernel, gflops in kernels if isinstance(kernel, LibraryKernel)]
    return max(gflops for _, gflops in libraries) if any(kernel.is_tuned for kernel, _ in libraries) else None


def _probed(entry: Entry, taken: RankedRow, rest: TunedTable) -> float:
    """`taken` is what the tables alone give."""
    likely = contenders(entry.problem, entry.accuracy, rest.traits, [rest])
    rows = [row for one in likely if (row := _measured(entry, one.point, rest.traits)) is not None]
    rows += [taken, *(row for row in entry.ranking if row.kernel == entry.baseline)]
    return min(max(row.gflops for row in rows if _is_as_exact(row)) / _best_gflops(entry), 1.0)


def _best_gflops(entry: Entry) -> float:
    """The best speed of the kernels that `auto` could take if it knew their speeds."""
    times_us = {row.kernel: entry.problem.flops / row.gflops * 1e-3 for row in entry.ranking}
    worth = set(worth_it(times_us, entry.problem, times_us))
    return max(row.gflops for row in entry.ranking if row.kernel in worth)


def _is_as_exact(row: RankedRow) -> bool:
    return row.is_as_exact if isinstance(row, Trial) else True


def _measured(entry: Entry, taken: Choice | SpeedPoint, device: DeviceTraits) -> RankedRow | None:
    """The kernel in that config: a library's whatever it says, and of one whose configs are tried one by one also those
    that are less exact than the library and therefore not ranked. None if the kernel was measured in another config."""
    kernel = taken.kernel
    for row in entry.ranking if kernel.emulated_with is None else entry.trials:
        config = as_measured(kernel, row.config, entry.problem, device)
        if row.kernel == kernel.name and (isinstance(kernel, LibraryKernel) or config == taken.config):
            return at_its_best(row, entry)
    return None


def by_class(held: Iterable[Held]) -> Iterator[str]:
    """The speed of what is taken over the library's best, and the best possible one."""
    together: dict[tuple[str, str], list[Held]] = defaultdict(list)
    for one in held:
        if one.of_best_library is not None:
            together[one.entry.dtype, one.entry.accuracy].append(one)
    for (dtype, accuracy), found in together.items():
        speeds = [one.of_best_library for one in found if one.of_best_library is not None]
        bests = [one.best_of_library for one in found if one.best_of_library is not None]
        below = sum(speed < NOT_MUCH_LESS for speed in speeds)
        yield (
            f"{dtype} to {accuracy}: {len(speeds)} shapes, over the library at its best {geometric_mean(speeds):.3f}, "
            f"worst {min(speeds):.3f}, {below} below {NOT_MUCH_LESS}; always the best {geometric_mean(bests):.3f}; "
            f"{_by_ours(found)}"
        )


def _by_ours(held: Iterable[Held]) -> str:
    """What is lost by a choice alone: a library's two lines differ from run to run, whatever is taken."""
    ours = [one.of_best_library for one in held if one.of_best_library is not None and not _is_library(one.kernel)]
    below = sum(speed < NOT_MUCH_LESS for speed in ours)
    return f"ours at {len(ours)}, worst {min(ours, default=1.0):.3f}, {below} below"


def _is_library(name: str) -> bool:
    return isinstance(BY_NAME[name], LibraryKernel)


def summary(held: Iterable[Held]) -> Iterator[str]:
    held = list(held)
    over = [one.of_library for one in held if one.of_library is not None]
    yield f"of the best: {geometric_mean([one.of_best for one in held]):.3f}"
    yield f"over the library: {geometric_mean(over):.3f}, worst {min(over):.3f}"
    yield f"less exact than the library: {sum(not one.is_as_exact for one in held)}"
    yield f"of the best, probed: {geometric_mean([one.probed() for one in held]):.3f}"
    yield from by_class(held)
    for one in sorted(held, key=lambda one: one.of_best)[:MAX_SHOWN]:
        yield f"{one.of_best:.3f} {one.entry.dtype} {one.entry.shape} {one.kernel}: {one.why}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", action="store_true", help="leave out each recorded sample whole")
    whole = parser.parse_args().samples
    for table in TABLES:
        found = dict(samples(table)) if whole else {"": tuple(validated(table))}
        for name, held in found.items():
            print(f"{table.device}, {name or 'shape by shape'}: {len(held)} shapes left out")
            print("\n".join(by_class(held) if whole else summary(held)))
        if whole:
            print(f"{table.device}, all samples")
            print("\n".join(summary(one for held in found.values() for one in held)))


if __name__ == "__main__":
    main()
