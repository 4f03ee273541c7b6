"""How a launch divides a product: tiles, partial tiles, waves. Uses the catalogue's own launch arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import TypeVar

from analysis.curves import config_key
from analysis.measurement import Device, Measurement
from kernels.catalog import BY_NAME
from kernels.model.architectures import ARCHITECTURES
from kernels.model.entry.config import ConfigError, TileConfig
from kernels.model.groups import tiles
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem

SPAN = 2**14 * 3**2 * 5 * 7  # a side length that every tile's sides divide

T = TypeVar("T")
ARCHITECTURE_OF = {architecture.compute_capability: architecture for architecture in ARCHITECTURES.values()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """What one thread block computes, independent of the product's size."""

    rows: int
    columns: int
    splits: int  # blocks that share a tile, each with a part of k
    threads: int | None
    shared: bool  # whether operands pass through shared memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """A product in tiles, and the tiles on a device."""

    tile: Tile
    down: int
    across: int
    partial: int  # tiles that the product's edge cuts
    useful: float  # elements of the product over those of all tiles, 0 to 1
    blocks: int  # of the launch: tiles, splits, batch
    multiprocessors: int | None
    resident: int | None  # blocks on one multiprocessor at once

    @property
    def tiles(self) -> int:
        return self.down * self.across

    @property
    def waves(self) -> float | None:
        """Blocks over the number of resident blocks. If that is unknown, one block per multiprocessor is assumed."""
        return self.blocks / (self.multiprocessors * (self.resident or 1)) if self.multiprocessors else None

    @property
    def by_waves(self) -> Tiling:
        """The same tiling with one block at a time on a multiprocessor."""
        return replace(self, resident=None)

    @property
    def passes(self) -> int | None:
        return None if self.waves is None else ceil(self.waves)

    @property
    def filled(self) -> float | None:
        """The fraction of all waves' slots that blocks take, 0 to 1: low if the last wave is nearly empty."""
        return None if self.waves is None else self.waves / ceil(self.waves)


def tiling(measurement: Measurement) -> Tiling | None:
    """None for a library's kernel, and if the config does not determine the tile. Imported results may have configs
    that the kernel does not take."""
    tile = _known_tile(measurement.kernel or "", config_key(measurement.config), measurement.dtype)
    if tile is None:
        return None
    down, across = tiles(measurement.m, tile.rows), tiles(measurement.n, tile.columns)
    whole = (measurement.m // tile.rows) * (measurement.n // tile.columns)
    return Tiling(
        tile=tile,
        down=down,
        across=across,
        partial=down * across - whole,
        useful=measurement.m * measurement.n / (down * tile.rows * across * tile.columns),
        blocks=down * across * tile.splits * measurement.batch,
        multiprocessors=measurement.device.multiprocessors,
        resident=_resident(measurement, tile.threads),
    )


@lru_cache(maxsize=4096)
def _known_tile(name: str, config: tuple[tuple[str, int], ...], dtype: DTypeName) -> Tile | None:
    """Kept, because a large run asks for the same tile thousands of times."""
    kernel = BY_NAME.get(name)
    if not isinstance(kernel, CudaKernel):
        return None
    try:
        kernel.resolve_config(dict(config))
    except ConfigError:
        return None
    return tile_of(kernel, dict(config), dtype)


def tile_of(kernel: CudaKernel, config: TileConfig, dtype: DTypeName) -> Tile | None:
    """Determined by evaluating the launch arithmetic, so that no parameter's name is needed."""

    def grid(config: TileConfig, m: int, n: int) -> int:
        return kernel.plan(Problem(m, n, 1, dtype), config).main.grid[0]

    def extents(config: TileConfig) -> tuple[int, int, int]:
        splits, stacked = grid(config, 1, 1), kernel.plan(Problem(1, 1, 1, dtype), config).main.stacked
        return SPAN * splits // grid(config, SPAN, 1) // stacked, SPAN * splits // grid(config, 1, SPAN), splits

    def threads(config: TileConfig) -> int:
        x, y, z = kernel.plan(Problem(1, 1, 1, dtype), config).main.block
        return x * y * z

    if (found := _agreed(kernel, config, extents)) is None:
        return None
    rows, columns, splits = found
    shared = _agreed(kernel, config, lambda config: kernel.shared_bytes(config, dtype) > 0)
    return Tile(
        rows=rows, columns=columns, splits=splits, threads=_agreed(kernel, config, threads), shared=shared is not False
    )


def _agreed(kernel: CudaKernel, config: TileConfig, ask: Callable[[TileConfig], T]) -> T | None:
    """The result that is the same for all values of the parameters that the config leaves out; None if it depends on
    them."""
    answers = {ask(completed) for completed in _completions(kernel, config)}
    return answers.pop() if len(answers) == 1 else None


def _completions(kernel: CudaKernel, config: TileConfig) -> Iterator[TileConfig]:
    """Each missing parameter takes each of its values, while the others have their defaults."""
    whole = {parameter.name: config.get(parameter.name, parameter.default) for parameter in kernel.parameters}
    yield whole
    for parameter in kernel.parameters:
        if parameter.name not in config:
            yield from (whole | {parameter.name: value} for value in parameter.values)


def _resident(measurement: Measurement, threads: int | None) -> int | None:
    """Resident blocks: as recorded, or from the occupancy, or from the resources of a block and of the architecture."""
    if measurement.resident_blocks is not None or threads is None:
        return measurement.resident_blocks
    if measurement.occupancy is not None and (limit := max_threads(measurement.device)):
        return max(1, round(measurement.occupancy * limit / threads))
    architecture = ARCHITECTURE_OF.get(measurement.device.compute_capability or (0, 0))
    if architecture is None or measurement.registers is None or measurement.shared_bytes is None:
        return None
    return architecture.resident_blocks(threads, measurement.registers, measurement.shared_bytes) or None


def max_threads(device: Device) -> int | None:
    """Resident threads on one multiprocessor."""
    architecture = ARCHITECTURE_OF.get(device.compute_capability or (0, 0))
    return device.threads_per_multiprocessor or (architecture.threads if architecture else None)
