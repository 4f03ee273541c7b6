"""Matrices in the host's memory, and the rectangles of them that are copied to a device and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import cupy

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName, Problem
from kernels.tiles.plan import Side, Span, Tile
from worker.cuda.from_host.copies import Copy, start_copy
from worker.cuda.memory import DeviceMatrix


class Part(NamedTuple):
    """A part of a stored batch of matrices: these rows and columns of these items."""

    items: Span
    rows: Span
    columns: Span

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.items.size, self.rows.size, self.columns.size


@dataclass(frozen=True, slots=True)
class HostMemory:
    """A matrix as it is stored, (batch, rows, columns)."""

    array: Array
    dtype: DTypeName

    @property
    def address(self) -> int:
        return int(self.array.ctypes.data)

    @property
    def rows(self) -> int:
        """Rows of one matrix of the batch."""
        return int(self.array.shape[1])

    @property
    def columns(self) -> int:
        return int(self.array.shape[2])

    @property
    def row_bytes(self) -> int:
        return self.columns * self.array.itemsize

    @property
    def bytes(self) -> int:
        return self.array.nbytes


def panel_part(problem: Problem, tile: Tile, side: Side, memory: HostMemory) -> Part:
    """A tile's panel of an operand, as the operand is stored."""
    items, span = tile.panel(side, problem)
    is_transposed = problem.transpose_a if side == "a" else problem.transpose_b
    if (side == "a") != is_transposed:
        return Part(items, span, Span(0, memory.columns))
    return Part(items, Span(0, memory.rows), span)


def copies(memory: HostMemory, part: Part, matrix: DeviceMatrix) -> Iterator[Copy]:
    """Copies of the whole part, which is in `matrix` on the device, matrix by matrix of the batch."""
    layout, itemsize = matrix.layout, memory.array.itemsize
    width = part.columns.size * itemsize
    for number, item in enumerate(range(part.items.start, part.items.stop)):
        first = item * memory.rows + part.rows.start
        host = memory.address + first * memory.row_bytes + part.columns.start * itemsize
        device = matrix.address + number * layout.kept_rows * layout.pitch_bytes
        yield Copy(device, layout.pitch_bytes, host, memory.row_bytes, width, part.rows.size)


def copy_tile(product: HostMemory, tile: Tile, matrix: DeviceMatrix, *, to_device: bool) -> None:
    """Copies a tile on the current stream."""
    for copy in copies(product, Part(tile.items, tile.rows, tile.columns), matrix):
        start_copy(copy, cupy.cuda.get_current_stream().ptr, to_device=to_device)
