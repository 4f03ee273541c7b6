"""The tables that serve a device, and the measured shapes that are relevant to a product: those near it, from the best
of these tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from itertools import takewhile

import numpy as np

from kernels.catalog import BY_NAME
from kernels.model.kernel import DeviceTraits, LibraryKernel
from kernels.model.numerics import AccuracyName, DTypeName, Problem, meets
from kernels.selection.distance import MOST_COORDINATES, SIZES, place_of
from kernels.selection.tuned import DEVICE_CLASS, TABLES, Entry, Floats, Shape, TunedTable, words

SHAPES = 32  # of the nearest so many are looked at
REACH = 4.0  # doublings of sizes: farther from a problem a measured shape says nothing of it
Bools = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Nearby:
    """Measurements at shapes near a problem, of several classes if several are suitable."""

    table: TunedTable
    accuracy: AccuracyName  # of the class that was asked for
    entries: tuple[Entry, ...]  # the nearest first, of SHAPES shapes at most
    knows_best: bool = False  # whether the library at its best was measured at any shape that is near enough


@dataclass(frozen=True, kw_only=True)
class SharedTable(TunedTable):
    """A model's table, and after it what other models with the same chip have at shapes that it lacks."""

    others: tuple[TunedTable, ...]

    def device_of(self, entry: Entry) -> str:
        return self._theirs.get(id(entry), self.device)

    @cached_property
    def _theirs(self) -> dict[int, str]:
        return {id(entry): table.device for table in self.others for entry in table.entries}


def shared(table: TunedTable, tables: Iterable[TunedTable] = TABLES) -> TunedTable:
    """The table with the measurements of models with the same chip: such as an H100 and an H200, which differ in their
    memory. Shapes that both have are the model's own."""
    chip = table.device_class, table.compute_capability, table.multiprocessors
    others = tuple(
        other
        for other in tables
        if (other.device_class, other.compute_capability, other.multiprocessors) == chip
        and other.device != table.device
    )
    if not others:
        return table
    own = {_key(entry) for entry in table.entries}
    more = [entry for other in others for entry in other.entries if _key(entry) not in own]
    given = {each.name: getattr(table, each.name) for each in fields(table)}
    return SharedTable(**given | {"entries": (*table.entries, *more)}, others=others)


def _key(entry: Entry) -> tuple[DTypeName, AccuracyName, Shape]:
    return entry.dtype, entry.accuracy, entry.shape


def table_for(device: DeviceTraits, tables: Iterable[TunedTable] = TABLES) -> TunedTable | None:
    """The first of `tables_for`; None if there is none."""
    return next(iter(tables_for(device, tables)), None)


def tables_for(device: DeviceTraits, tables: Iterable[TunedTable] = TABLES) -> Sequence[TunedTable]:
    """The model's own, then those of GPUs of the same compute capability, the nearest in size first, and of those
    the one whose name is most alike. Of the tables that ship, the own one is shared by models with the same chip.

    A device that nobody named has none: nothing says that it is one of them.
    """
    return _shipped_for(device) if tables is TABLES else family_of(device, tables)


@lru_cache(maxsize=64)
def _shipped_for(device: DeviceTraits) -> Sequence[TunedTable]:
    found = family_of(device, TABLES)
    if not found or found[0].device != device.name:
        return found
    own = shared(found[0])
    others = own.others if isinstance(own, SharedTable) else ()
    return [own, *(table for table in found[1:] if table not in others)]


def family_of(device: DeviceTraits, tables: Iterable[TunedTable] = TABLES) -> Sequence[TunedTable]:
    """These tables in the same order, each with its own measurements alone."""
    if tables is TABLES and device.device_class != DEVICE_CLASS:
        return []
    alike = [table for table in tables if table.device_class == device.device_class and device.name]
    own = [table for table in alike if table.device == device.name]
    family = [table for table in alike if table.compute_capability == device.compute_capability and table not in own]
    of_ours = device.multiprocessors
    return own + sorted(
        family, key=lambda one: (abs((one.multiprocessors or 0) - of_ours), -_words_shared(one, device))
    )


def _words_shared(table: TunedTable, device: DeviceTraits) -> int:
    return len(set(words(table.device)) & set(words(device.name)))


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

    A model's own table counts before those of its family, which serve where it says nothing. One that knows the library
    at its best counts before one that knows its default choice alone.

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
        if is_measured or near.knows_best:
            return near
        first = first or near
    return first


def _nearby(
    table: TunedTable, problem: Problem, accuracy: AccuracyName, reach: float, classes: Collection[AccuracyName]
) -> Nearby | None:
    serving = _serving(table, problem, accuracy, frozenset(classes))
    here = np.array(place_of(problem, accuracy))
    squares = (serving.places[:, : len(here)] - here) ** 2
    within = np.flatnonzero(np.sqrt(squares[:, :SIZES].sum(axis=1)) <= reach)
    of_class = serving.is_of_class[within]
    if of_class.any():
        within = within[of_class]
    if not len(within):
        return None
    nearest = within[np.sqrt(squares[within].sum(axis=1)).argsort(kind="stable")]
    entries = tuple(_of_nearest_shapes(serving.entries, nearest.tolist()))
    measured = tuple(takewhile(lambda entry: entry.is_of(problem), entries))  # at no distance at all
    knows_best = bool(serving.knows_best[nearest[: len(measured)] if measured else nearest].any())
    return Nearby(table, accuracy, measured or entries, knows_best)


def _of_nearest_shapes(entries: Sequence[Entry], nearest: Iterable[int]) -> Iterator[Entry]:
    shapes: set[Shape] = set()
    for entry in map(entries.__getitem__, nearest):
        shapes.add(entry.shape)
        if len(shapes) > SHAPES:
            return
        yield entry


@dataclass(frozen=True, slots=True)
class _Serving:
    """Entries of a table, with the coordinates of their shapes.

    Shapes where no kernel of the class itself was measured are dropped if there are others: the fastest of more exact
    kernels is slow beside those.
    """

    entries: tuple[Entry, ...]
    places: Floats
    is_of_class: Bools  # whether a kernel of the class itself was measured at that shape
    knows_best: Bools  # whether the library at its best was


def _serving(table: TunedTable, problem: Problem, accuracy: AccuracyName, classes: frozenset[AccuracyName]) -> _Serving:
    """The entries that serve such a product, at any distance. Computed once for a table."""
    key = problem.dtype, accuracy, classes, problem.batch > 1
    if key not in table.served:
        entries, places = table.by_dtype.get(problem.dtype, ((), np.empty((0, MOST_COORDINATES))))
        serves = np.array([_serves(entry, problem, accuracy, classes) for entry in entries], bool)
        found = tuple(entry for entry, does in zip(entries, serves, strict=True) if does)
        shapes = {entry.shape for entry in found if entry.accuracy == accuracy}
        of_class = np.array([entry.shape in shapes for entry in found], bool)
        knows_best = np.array([_knows_best(entry) for entry in found], bool)
        table.served[key] = _Serving(found, places[serves], of_class, knows_best)
    known: _Serving = table.served[key]
    return known


def _knows_best(entry: Entry) -> bool:
    kernels = (BY_NAME.get(row.kernel) for row in entry.ranking)
    return any(isinstance(kernel, LibraryKernel) and kernel.is_tuned for kernel in kernels)


def _serves(entry: Entry, problem: Problem, accuracy: AccuracyName, classes: Collection[AccuracyName]) -> bool:
    return (meets(entry.accuracy, accuracy) or entry.accuracy in classes) and (entry.batch > 1) == (problem.batch > 1)
