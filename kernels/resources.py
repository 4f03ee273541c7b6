"""The resources of compiled kernels, config by config: a table that `make kernel-resources` writes.

One compressed file a kernel in `resources/`. Each record has a key over all inputs of its figures, so a record with a
matching key proves that this config compiles for the architectures it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path

from kernels.model.entry.config import TileConfig
from kernels.model.numerics import DTypeName
from kernels.strict_json import DataError, parse
from kernels.text_files import read_text

DIRECTORY = Path(__file__).parent / "resources"
SUFFIX = ".json.gz"


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources of one config and element type on one architecture."""

    registers: int  # of a thread
    local_bytes: int  # of a thread: spilled or dynamically indexed values
    spill_store_bytes: int
    spill_load_bytes: int

    @property
    def spills(self) -> bool:
        return self.local_bytes > 0


COLUMNS = tuple(column.name for column in fields(Usage))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """One config for one element type, operands as they are stored, on the architectures it was compiled for."""

    dtype: DTypeName
    config: Mapping[str, int]  # the parameters that the compiler is told
    static_shared_bytes: int  # of a block
    dynamic_shared_bytes: int  # of a block, asked for at launch
    compiled: Mapping[str, tuple[int, int, int, int]]  # COLUMNS by architecture
    key: str

    @property
    def shared_bytes(self) -> int:
        return self.static_shared_bytes + self.dynamic_shared_bytes

    @property
    def usage(self) -> Mapping[str, Usage]:
        """By architecture, as in `sm_90`."""
        return {arch: Usage(*figures) for arch, figures in self.compiled.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecords:
    """One kernel's file."""

    kernel: str
    compiler: str
    columns: tuple[str, ...]
    records: tuple[ConfigRecord, ...]  # in the order of `CudaKernel.configs`

    def find(self, config: TileConfig, dtype: DTypeName) -> ConfigRecord | None:
        """The record of a full config."""
        alike = (record for record in self.records if record.config.items() <= config.items())
        return next((record for record in alike if record.dtype == dtype), None)


def path_of(kernel: str, directory: Path = DIRECTORY) -> Path:
    """Its file, which need not exist."""
    return directory / f"{kernel}{SUFFIX}"


def read(path: Path) -> KernelRecords:
    """Raises DataError for a file that breaks the schema, or is another kernel's."""
    table = parse(KernelRecords, read_text(path), path.name)
    if (table.kernel, table.columns) != (path.name.removesuffix(SUFFIX), COLUMNS):
        raise DataError(f"{path.name} is of {table.kernel!r} with columns {', '.join(table.columns)}.")
    return table


@lru_cache(maxsize=64)
def records_of(kernel: str) -> KernelRecords | None:
    """The records of a kernel; None if nothing has been compiled yet. Raises DataError."""
    path = path_of(kernel)
    return read(path) if path.exists() else None
