"""Matrices in the host's memory, and the rectangles of them that are copied to a device and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import cupy

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName, Problem
from kernels.tiles.plan import Side, Span, Tile
from worker.cuda.memory import DeviceMatrix
from worker.cuda.pitch import LARGEST_PITCH_BYTES


class Part(NamedTuple):
    """Of a stored batch of matrices: of these items, these rows and columns."""

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
        """Of one item."""
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


class Copy(NamedTuple):
    """Rows between host and device; widths and pitches in bytes."""

    device: int
    device_pitch: int
    host: int
    host_pitch: int
    width: int
    height: int


def copies(memory: HostMemory, part: Part, matrix: DeviceMatrix) -> Iterator[Copy]:
    """All of the part, which lies in `matrix` on the device, item by item."""
    layout, itemsize = matrix.layout, memory.array.itemsize
    width = part.columns.size * itemsize
    for number, item in enumerate(range(part.items.start, part.items.stop)):
        first = item * memory.rows + part.rows.start
        host = memory.address + first * memory.row_bytes + part.columns.start * itemsize
        device = matrix.address + number * layout.kept_rows * layout.pitch_bytes
        yield Copy(device, layout.pitch_bytes, host, memory.row_bytes, width, part.rows.size)


def pieces(copy: Copy, count: int) -> Iterator[Copy]:
    """The same in about so many pieces."""
    height = max(1, -(-copy.height // max(1, count)))
    for row in range(0, copy.height, height):
        yield copy._replace(
            device=copy.device + row * copy.device_pitch,
            host=copy.host + row * copy.host_pitch,
            height=min(height, copy.height - row),
        )


def start_copy(copy: Copy, stream: int, *, to_device: bool) -> None:
    runtime = cupy.cuda.runtime
    kind = runtime.memcpyHostToDevice if to_device else runtime.memcpyDeviceToHost
    if copy.device_pitch == copy.width == copy.host_pitch or copy.height == 1:
        size = copy.width * copy.height
        to, source = (copy.device, copy.host) if to_device else (copy.host, copy.device)
        runtime.memcpyAsync(to, source, size, kind, stream)
        return
    if max(copy.device_pitch, copy.host_pitch) > LARGEST_PITCH_BYTES:
        for row in pieces(copy, copy.height):
            start_copy(row, stream, to_device=to_device)
        return
    device, host = (copy.device, copy.device_pitch), (copy.host, copy.host_pitch)
    to_and_source = (*device, *host) if to_device else (*host, *device)
    runtime.memcpy2DAsync(*to_and_source, copy.width, copy.height, kind, stream)
