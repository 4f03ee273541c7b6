"""The tables that `auto` reads: the measured speeds of kernels, device by device and shape by shape.

One file a device model in `tuned/`, which `make recorded` writes from results; one that breaks the schema is an error
when they are first looked at. A row is a kernel's best config at a shape, so a table also says how fast every kernel
was there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from kernels.catalog import BY_NAME
from kernels.lazy_data import LazySequence
from kernels.model.kernel import CudaKernel, DeviceClass, DeviceTraits, LibraryKernel
from kernels.model.numerics import AccuracyName, DTypeName, Problem
from kernels.model.triangle import whole
from kernels.selection.distance import Place, depth_of, place_at
from kernels.strict_json import DataError, load, read_as
from kernels.text_files import read_text

DIRECTORY = Path(__file__).parent.parent / "tuned"
SUFFIX = ".json.gz"
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
ConfigItems = tuple[tuple[str, int], ...]
Shape = tuple[int, int, int, int]  # m, n, k and batch
Way = tuple[str, ...]  # names of a kernel's passes at a shape
MIN_ERROR = 1e-3  # over the library's: what is exact has no logarithm


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRow:
    """A kernel's best config at a shape."""

    kernel: str
    config: Mapping[str, int]
    gflops: float
    fraction_of_baseline: float | None  # speed over the baseline's in the same run; None where there is no baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial(RankedRow):
    """A config, at a shape, of a kernel that is ranked only where it is as exact as the library."""

    error_of_baseline: float | None  # against float64, over the baseline's in the same run; None where unknown

    @property
    def is_as_exact(self) -> bool:
        return self.error_of_baseline is not None and self.error_of_baseline <= 1.0


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A shape in one element type and accuracy class, with all kernels of that class that were measured there. Without
    slots, for what is worked out once."""

    dtype: DTypeName
    accuracy: AccuracyName
    m: int
    n: int
    k: int
    batch: int = 1
    baseline: str | None  # the library's kernel of that class
    ranking: tuple[RankedRow, ...]  # fastest first
    trials: tuple[Trial, ...] = ()  # all configs, whose best may be in the ranking or not

    @cached_property
    def problem(self) -> Problem:
        return Problem(self.m, self.n, self.k, self.dtype, self.batch)

    @cached_property
    def ranked(self) -> tuple[TableRow, ...]:
        """The ranking as rows that are quickly looked up by."""
        return tuple(TableRow(self, row, _tried(row)) for row in self.ranking)

    @cached_property
    def tried(self) -> tuple[TableRow, ...]:
        return tuple(
            TableRow(self, row, _tried(row), way_of(row.kernel, row.config, self.problem), _log_error(row))
            for row in self.trials
        )

    @cached_property
    def elsewhere(self) -> tuple[TableRow, ...]:
        """Rows that say something of other shapes: of a kernel whose configs were tried, each of them."""
        return (*(at for at in self.ranked if BY_NAME[at.row.kernel].emulated_with is None), *self.tried)

    @cached_property
    def place(self) -> Place:
        """With alignment, which does not count for every class (`distance.py`)."""
        return place_at(self.shape, self.dtype, True)

    @cached_property
    def depth(self) -> Place:
        return depth_of(self.problem)

    @cached_property
    def shape(self) -> Shape:
        return self.m, self.n, self.k, self.batch

    def is_of(self, problem: Problem) -> bool:
        """Whether the entry has exactly that shape. Entries are measurements of whole products."""
        return not problem.symmetric and self.shape == (problem.m, problem.n, problem.k, problem.batch)


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """A kernel in a config. There is one of each, equal to itself alone, so it is quickly looked up by."""

    kernel: str
    config: ConfigItems


@dataclass(frozen=True, slots=True, eq=False)
class TableRow:
    """A row, ranked or tried, in its place. Each is equal to itself alone, so it is quickly looked up by."""

    entry: Entry
    row: RankedRow
    tried: Tried
    way: Way = ()  # of one that was tried
    log_error: float | None = None  # and the logarithm of its error over the library's, where that is known


def _tried(row: RankedRow) -> Tried:
    return _the_one(row.kernel, tuple(row.config.items()))


@cache
def _the_one(kernel: str, config: ConfigItems) -> Tried:
    return Tried(kernel, config)


def _log_error(row: Trial) -> float | None:
    return None if row.error_of_baseline is None else log(max(row.error_of_baseline, MIN_ERROR))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A recorded run that a table was made from."""

    file: str
    date: str  # UTC, ISO 8601
    versions: Mapping[str, str] = field(default_factory=dict)  # of driver, runtime and libraries


@dataclass(frozen=True, kw_only=True)
class TunedTable:
    """The measurements of one device model. Without slots, so that derived values can be cached."""

    device: str
    device_class: DeviceClass
    compute_capability: tuple[int, int] | None
    multiprocessors: int | None
    sources: tuple[Source, ...]  # none: a worker probed it for a product
    entries: tuple[Entry, ...]

    @property
    def traits(self) -> DeviceTraits:
        """The device's traits, without the shared memory of a block, which tables do not have."""
        return DeviceTraits(
            self.device_class, self.compute_capability or (0, 0), 0, self.multiprocessors or 0, self.device
        )

    @property
    def is_probed(self) -> bool:
        return not self.sources

    def device_of(self, entry: Entry) -> str:
        """The model that the entry was measured on."""
        return self.device

    @cached_property
    def cost_models(self) -> dict[tuple[DTypeName, str, str | None], Any]:
        """The models that `cost_model/model.py` has fitted, by element type, kernel and library."""
        return {}

    @cached_property
    def served(self) -> dict[Any, Any]:
        """What `nearby.py` has found to serve a kind of product, by that kind."""
        return {}

    @cached_property
    def by_dtype(self) -> Mapping[DTypeName, tuple[tuple[Entry, ...], Floats]]:
        """Entries of each element type, with the coordinates of their shapes."""
        return {dtype: self._of(dtype) for dtype in dict.fromkeys(entry.dtype for entry in self.entries)}

    def _of(self, dtype: DTypeName) -> tuple[tuple[Entry, ...], Floats]:
        found = tuple(entry for entry in self.entries if entry.dtype == dtype)
        return found, np.array([entry.place for entry in found], float)


@dataclass(frozen=True, slots=True)
class BestResult:
    """A kernel's best at a shape on a device."""

    device: str
    entry: Entry = field(repr=False)
    row: RankedRow

    @property
    def library(self) -> RankedRow | None:
        """The library at its best there: its fastest kernel of that class, the tuned one too."""
        return next((row for row in self.entry.ranking if isinstance(BY_NAME.get(row.kernel), LibraryKernel)), None)

    @property
    def fraction_of_library(self) -> float | None:
        """Speed over that, by rounds where they were paired."""
        library = self.library
        if library is None or library.kernel == self.entry.baseline:
            return self.row.fraction_of_baseline
        return self.row.gflops / library.gflops


def way_of(name: str, config: Mapping[str, int], problem: Problem) -> Way:
    """The passes before the kernel: small products are made without those of large ones."""
    kernel = BY_NAME[name]
    if not isinstance(kernel, CudaKernel) or kernel.passes is None:
        return ()
    return tuple(each.name for each in kernel.passes(whole(problem), config))


def words(device: str) -> list[str]:
    return re.findall("[a-z0-9]+", device.lower())


def file_name(device: str) -> str:
    """The file's name, such as `nvidia_h200.json.gz`."""
    return "_".join(words(device)) + SUFFIX


def read(path: Path) -> TunedTable:
    """Raises DataError for a file that breaks the schema, bears another device's name, or is not in order."""
    value = load(read_text(path), path.name)
    table = read_as(TunedTable, _with_configs(value, path.name), path.name)
    if file_name(table.device) != path.name:
        raise DataError(f"{path.name} is of {table.device!r}, whose file is {file_name(table.device)}.")
    for entry in table.entries:
        speeds = [row.gflops for row in entry.ranking]
        if not speeds or speeds != sorted(speeds, reverse=True):
            raise DataError(f"{path.name} does not rank {entry.dtype} at {entry.shape} from the fastest on.")
    return table


def _with_configs(value: Any, where: str) -> Any:
    """A file lists each config once, and its rows say which: in their place the configs themselves."""
    try:
        configs = value.pop("configs")
        for entry in value["entries"]:
            for row in (*entry["ranking"], *entry.get("trials", ())):
                row[1] = configs[row[1]]
    except (AttributeError, IndexError, KeyError, TypeError):
        raise DataError(f"{where} does not say which config each row is of.") from None
    return value


TABLES: Sequence[TunedTable] = LazySequence(lambda: [read(path) for path in sorted(DIRECTORY.glob(f"*{SUFFIX}"))])
DEVICE_CLASS: DeviceClass = "gpu"  # of all that ship, which are not read for others


def best_results(kernel: str, tables: Iterable[TunedTable] = TABLES) -> tuple[BestResult, ...]:
    """The kernel's best result at every measured shape, device by device."""
    entries = ((table.device, entry) for table in tables for entry in table.entries)
    return tuple(BestResult(*at, row) for at in entries for row in at[1].ranking if row.kernel == kernel)
