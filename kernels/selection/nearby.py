"""The measured shapes that are relevant to a product: those near it, from the best table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernels.catalog import BY_NAME
from kernels.model.kernel import DeviceTraits, LibraryKernel
from kernels.model.numerics import AccuracyName, Problem, meets
from kernels.selection.distance import SIZES, place_of
from kernels.selection.tuned import TABLES, Entry, TunedTable, tables_for

REACH = 4.0  # doublings of sizes: farther from a problem a measured shape says nothing of it


@dataclass(frozen=True, slots=True)
class Nearby:
    """Measurements at shapes near a problem, of several classes if several are suitable."""

    table: TunedTable
    accuracy: AccuracyName  # of the class that was asked for
    entries: tuple[Entry, ...]  # the nearest first

    @property
    def knows_the_library_at_its_best(self) -> bool:
        kernels = (BY_NAME.get(row.kernel) for entry in self.entries for row in entry.ranking)
        return any(isinstance(kernel, LibraryKernel) and kernel.is_tuned for kernel in kernels)


def nearby(
    problem: Problem,
    accuracy: AccuracyName,
    device: DeviceTraits,
    tables: Iterable[TunedTable] = TABLES,
    reach: float = REACH,
    classes: Collection[AccuracyName] = (),
) -> Nearby | None:
    """What was measured near to a problem in classes that meet `accuracy`, or are among `classes`; None where nothing
    near enough was.

    A model's own table counts before those of its family, which serve where it says nothing. On tensor cores, where
    padding makes a library several times as fast, one that knows the library at its best counts before one that knows
    its default choice alone.

    Near are shapes whose sizes are at most `reach` doublings away; the nearest are those that are aligned alike
    (`distance.py`). Where the very shape was measured, that alone counts. Tables hold products of operands as they are,
    so nothing is near to one of a transposed operand, but for a symmetric one: there they tell what half of the tiles
    may gain.
    """
    if (problem.transpose_a or problem.transpose_b) and not problem.symmetric:
        return None
    first: Nearby | None = None
    for table in tables_for(device, tables):
        near = _nearby(table, problem, accuracy, reach, classes)
        if near is None:
            continue
        is_measured = first is None and near.entries[0].is_of(problem)
        if is_measured or accuracy == "fp32" or near.knows_the_library_at_its_best:
            return near
        first = first or near
    return first


def _nearby(
    table: TunedTable, problem: Problem, accuracy: AccuracyName, reach: float, classes: Collection[AccuracyName]
) -> Nearby | None:
    within = _within(reach, table, problem, accuracy)
    near = tuple(entry for entry in within if _serves(entry, problem, accuracy, classes))
    if not near:
        return None
    near = tuple(_held_against_the_class(near, accuracy))
    return Nearby(table, accuracy, tuple(entry for entry in near if entry.is_of(problem)) or near)


def _held_against_the_class(near: Sequence[Entry], accuracy: AccuracyName) -> Iterator[Entry]:
    """Drops shapes where kernels of the class itself were not measured, if they were at others: the fastest of more
    exact kernels is slow beside those."""
    shapes = {entry.shape for entry in near if entry.accuracy == accuracy}
    return (entry for entry in near if not shapes or entry.shape in shapes)


def _within(reach: float, table: TunedTable, problem: Problem, accuracy: AccuracyName) -> Iterator[Entry]:
    """The nearest first."""
    if problem.dtype not in table.by_dtype:
        return
    entries, places = table.by_dtype[problem.dtype]
    here = np.array(place_of(problem, accuracy))
    apart = places[:, : len(here)] - here
    sizes, all_of_it = (np.linalg.norm(apart[:, :count], axis=1) for count in (SIZES, len(here)))
    yield from (entries[at] for at in np.argsort(all_of_it, kind="stable") if sizes[at] <= reach)


def _serves(entry: Entry, problem: Problem, accuracy: AccuracyName, classes: Collection[AccuracyName]) -> bool:
    return (meets(entry.accuracy, accuracy) or entry.accuracy in classes) and (entry.batch > 1) == (problem.batch > 1)
