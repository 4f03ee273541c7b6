"""Converts big-endian and Fortran-order elements to the stored form, piece by piece, in bounded memory.

A Fortran-order matrix cannot be passed on as it comes: its first row is complete only with its last byte. `Transposer`
transposes tiles of it in memory, keeps them in a temporary file, and gathers rows from that file; for a matrix of T
bytes it reads the file in about (T / TILE_BYTES)² runs, whatever the shape. Matrices up to one tile never touch the
disk.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from jobs.disk import translated_disk, write_all
from jobs.formats.elements import Array

TILE_BYTES = 8 << 20
PIECE_BYTES = 1 << 20  # most bytes that are passed on at a time
SLAB_BYTES = 32 << 10


class Sink(Protocol):
    """Takes elements in order, in pieces of any size."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...


class _Stage(Sink, Protocol):
    """A sink that passes elements on in another order."""

    def finish(self) -> None:
        """Ends the input: passes on what was held back."""

    def close(self) -> None:
        """Drops what was held back."""


@dataclass(frozen=True, slots=True)
class Reordered:
    """A chain of stages before a sink: `entry` takes elements as they arrive, and the sink gets them in storage
    order.
    """

    entry: Sink
    stages: tuple[_Stage, ...]  # in the order in which elements pass them

    def finish(self) -> None:
        for stage in self.stages:
            stage.finish()

    def close(self) -> None:
        for stage in self.stages:
            stage.close()


def in_storage_order(
    sink: Sink,
    shape: tuple[int, ...],
    itemsize: int,
    *,
    fortran_order: bool,
    big_endian: bool,
    staging_dir: Path | None,
    number_bytes: int | None = None,
) -> Reordered:
    """Puts the stages before `sink` that are needed so that it gets little-endian, row-major elements; often none.
    `number_bytes` is the size of each number if an element consists of several, whose bytes are swapped separately.
    """
    turns = _turns(shape, itemsize) if fortran_order and 0 not in shape else []
    stages: list[_Stage] = []
    for rows, columns, element_bytes in reversed(turns):  # from the sink backwards
        if rows > 1 and columns > 1:
            sink = Transposer(sink, rows, columns, element_bytes, staging_dir)
            stages.append(sink)
    if big_endian and itemsize > 1:
        sink = ByteSwapper(sink, number_bytes or itemsize)
        stages.append(sink)
    return Reordered(sink, tuple(reversed(stages)))


def _turns(shape: tuple[int, ...], itemsize: int) -> list[tuple[int, int, int]]:
    """The transpositions (rows, columns, bytes of an element) that bring Fortran order into row-major order.

    In memory, Fortran order of (d0, d1, d2) is row-major (d2, d1, d0). The first turn moves d2 to the end, and the
    second swaps the other two, with whole runs of d2 as its elements.
    """
    if len(shape) == 2:
        return [(shape[1], shape[0], itemsize)]
    d0, d1, d2 = shape
    return [(d2, d1 * d0, itemsize), (d1, d0, itemsize * d2)]


class ByteSwapper:
    """Reverses the bytes of each number."""

    def __init__(self, sink: Sink, itemsize: int) -> None:
        self._sink = sink
        self._itemsize = itemsize
        self._dtype = np.dtype(f"u{itemsize}")
        self._part = b""  # the beginning of an incomplete element

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        if self._part:
            missing = self._itemsize - len(self._part)
            self._part += view[:missing]
            view = view[missing:]
            if len(self._part) < self._itemsize:
                return
            self._swap(memoryview(self._part))
        whole = view.nbytes - view.nbytes % self._itemsize
        for start in range(0, whole, PIECE_BYTES):
            self._swap(view[start : min(start + PIECE_BYTES, whole)])
        self._part = bytes(view[whole:])

    def _swap(self, elements: memoryview) -> None:
        self._sink.write(np.frombuffer(elements, self._dtype).byteswap().data.cast("B"))

    def finish(self) -> None:
        assert not self._part, "the parser counted the bytes, so no element is in two"

    def close(self) -> None:
        self._part = b""


class Transposer:
    """Takes `rows` × `columns` elements in row-major order and passes on the transpose in row-major order.

    A tile is some whole rows, stored transposed: (columns, rows of the tile). So a run of columns lies together in
    every tile. Rows longer than a tile are their own transposes, and are stored as they come.
    """

    def __init__(self, sink: Sink, rows: int, columns: int, element_bytes: int, staging_dir: Path | None) -> None:
        self._sink = sink
        self._rows, self._columns, self._element_bytes = rows, columns, element_bytes
        self._tile_rows = min(rows, max(1, TILE_BYTES // (columns * element_bytes)))
        self._staging_dir = staging_dir
        self._staging: BinaryIO | None = None
        tile_bytes = self._tile_rows * columns * element_bytes
        self._tile = memoryview(bytearray(tile_bytes if self._tile_rows > 1 else 0))
        self._filled = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._tile_rows == 1:
            self._stage(data)
            return
        view = memoryview(data)
        while view.nbytes:
            end = min(self._filled + view.nbytes, len(self._tile))
            taken = end - self._filled
            self._tile[self._filled : end] = view[:taken]
            self._filled, view = end, view[taken:]
            if end == len(self._tile):
                self._transpose_tile()

    def finish(self) -> None:
        if self._filled:
            self._transpose_tile()
        self._tile = memoryview(b"")
        if self._staging is not None:
            self._gather_all()

    def close(self) -> None:
        self._tile = memoryview(b"")
        if self._staging is not None:
            self._staging.close()

    @property
    def _dtype(self) -> np.dtype[Any]:
        """An element's dtype; only its size matters."""
        size = self._element_bytes
        return np.dtype(f"u{size}" if size in (1, 2, 4, 8) else f"V{size}")

    def _transpose_tile(self) -> None:
        """Transposes the tile, as far as it is filled."""
        tile = np.frombuffer(self._tile, self._dtype, self._filled // self._element_bytes)
        transposed = _transpose(tile.reshape(-1, self._columns))
        self._filled = 0
        if self._tile_rows == self._rows:
            self._sink.write(_raw(transposed))
        else:
            self._stage(_raw(transposed))

    def _stage(self, data: bytes | bytearray | memoryview) -> None:
        with translated_disk():
            if self._staging is None:
                self._staging = tempfile.TemporaryFile(dir=self._staging_dir, buffering=0)  # noqa: SIM115 (see close)
            write_all(self._staging.fileno(), data)

    def _gather_all(self) -> None:
        """Reads the columns back from all tiles, as many at a time as fit in one tile's bytes."""
        column_bytes = self._rows * self._element_bytes
        at_a_time = max(1, TILE_BYTES // column_bytes)
        for first in range(0, self._columns, at_a_time):
            count = min(at_a_time, self._columns - first)
            if count * column_bytes <= TILE_BYTES:
                self._gather(first, count)
            else:
                self._copy_column(first)

    def _runs(self, first: int, count: int) -> list[tuple[int, int, int]]:
        """The location of columns `first` to `first + count`: for each tile its first row, offset and bytes."""
        runs = []
        for start in range(0, self._rows, self._tile_rows):
            rows = min(self._tile_rows, self._rows - start)
            offset = (start * self._columns + first * rows) * self._element_bytes
            runs.append((start, offset, count * rows * self._element_bytes))
        return runs

    def _gather(self, first: int, count: int) -> None:
        columns = np.empty((count, self._rows), self._dtype)
        for start, offset, size in self._runs(first, count):
            run = np.frombuffer(self._read(offset, size), self._dtype).reshape(count, -1)
            columns[:, start : start + run.shape[1]] = run
        self._sink.write(_raw(columns))

    def _copy_column(self, column: int) -> None:
        for _, offset, size in self._runs(column, 1):
            for done in range(0, size, PIECE_BYTES):
                self._sink.write(self._read(offset + done, min(PIECE_BYTES, size - done)))

    def _read(self, offset: int, size: int) -> bytes:
        assert self._staging is not None
        with translated_disk():
            return os.pread(self._staging.fileno(), size, offset)


def _transpose(tile: Array) -> Array:
    """A slab of rows at a time: few enough that a cache line of each stays in L1 while its elements are spread out.

    Otherwise rows a power of two apart evict each other, which takes three to five times as long.
    """
    rows, columns = tile.shape
    transposed = np.empty((columns, rows), tile.dtype)
    slab = max(16, SLAB_BYTES // (columns * tile.itemsize))
    for first in range(0, rows, slab):
        transposed[:, first : first + slab] = tile[first : first + slab].T
    return transposed


def _raw(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
