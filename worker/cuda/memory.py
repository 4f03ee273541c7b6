"""Matrices on the device: copied there at a padded pitch, kept there between jobs, copied back in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

import cupy
import numpy as np

from jobs.formats.elements import Array
from kernels.model.padding import round_up
from worker.cuda.calls import clear_columns
from worker.cuda.pitch import Layout, Piece
from worker.device.host_lock import LongWait

STAGING_BYTES = 8 << 20  # of each of the two pinned buffers that a product passes through
# Sizes of the pieces that may be read back as they arrive. The last is cut again, as nothing is left to be copied
# while it is read back.
DOWNLOADED_BYTES, LAST_DOWNLOADED_BYTES = 16 << 20, 4 << 20
# Bytes, for matrices that share memory: CuPy's pool rounds every allocation up to so many, so kernels find such a
# matrix aligned as in memory of its own.
MATRIX_ALIGNMENT = 512
TOGETHER_BYTES = 256 << 10  # of operands that are copied to the device in one step, at most
COUNTER_BYTES, MAX_COUNTERS = 4, 4096  # of a stream: more than any launch has
WHOLE = 1 << 62  # an operand is copied in as few pieces as its layout allows


@dataclass(frozen=True, slots=True)
class DeviceMatrix:
    """Memory of the device with its layout; freed with the last reference to it."""

    layout: Layout
    memory: Any  # a cupy.cuda.MemoryPointer

    @property
    def address(self) -> int:
        return int(self.memory.ptr)

    def item(self, index: int) -> DeviceMatrix:
        """One matrix of the batch; it keeps the memory of the whole."""
        layout = self.layout
        return DeviceMatrix(layout.item, self.memory + index * layout.kept_rows * layout.pitch_bytes)


Matrices = tuple[DeviceMatrix, DeviceMatrix, DeviceMatrix]  # A, B and C of a product


class StopWatch:
    """Adds up spans of device time between events on the current stream."""

    def __init__(self, spare: list[Any] | None = None) -> None:
        """`spare`: events of the current device that are free; they come back once they have been read."""
        self._spare: list[Any] = [] if spare is None else spare
        self._spans: list[tuple[Any, Any]] = []
        self._read_ms = 0.0

    def __enter__(self) -> None:
        start, end = self._event(), self._event()
        start.record()
        self._spans.append((start, end))

    def __exit__(self, *_: object) -> None:
        self._spans[-1][1].record()

    def _event(self) -> Any:
        return self._spare.pop() if self._spare else cupy.cuda.Event()

    def wait(self) -> None:
        """Waits until all spans have ended."""
        for _, end in self._spans:
            if not end.done:
                with LongWait():
                    end.synchronize()

    def total_ms(self) -> float:
        """Waits for the last span to end."""
        self.wait()
        for start, end in self._spans:
            self._read_ms += float(cupy.cuda.get_elapsed_time(start, end))
            self._spare += start, end
        self._spans.clear()
        return self._read_ms


def reserve(layout: Layout) -> DeviceMatrix:
    """Allocates a matrix without initialising it. Raises cupy's OutOfMemoryError."""
    return DeviceMatrix(layout, cupy.cuda.alloc(max(layout.bytes, 1)))


def allocate(layout: Layout) -> DeviceMatrix:
    """Allocates a matrix and clears only its padding, which may take part in sums. Raises cupy's OutOfMemoryError."""
    matrix = reserve(layout)
    if layout.in_groups and layout.bytes:
        matrix.memory.memset_async(0, layout.bytes)
    else:
        clear_padding(matrix)
    return matrix


def clear_padding(matrix: DeviceMatrix) -> None:
    """Fills with zeros what a single matrix may be padded with, on the current stream."""
    layout, stream = matrix.layout, cupy.cuda.get_current_stream().ptr
    if layout.in_groups:
        return
    below, beside = layout.cleared
    if below:
        start = matrix.address + layout.rows * layout.pitch_bytes
        cupy.cuda.runtime.memsetAsync(start, 0, below * layout.pitch_bytes, stream)
    if beside and layout.rows:
        clear_columns(
            matrix.address + layout.row_bytes, layout.pitch_bytes, beside * layout.itemsize, layout.rows, stream
        )


def upload(elements: Array, matrix: DeviceMatrix) -> None:
    """Starts the copy of a stored matrix, C order; `elements` must live until the stream has done it."""
    kind = cupy.cuda.runtime.memcpyHostToDevice
    for piece in matrix.layout.pieces(WHOLE):
        if piece.bytes:
            _copy(matrix.address + piece.device_offset, elements.ctypes.data + piece.host_offset, matrix, piece, kind)


def copy_into(matrix: DeviceMatrix, source: DeviceMatrix) -> None:
    """Copies a single matrix to memory whose layout has the same pitch, padding beside its rows and all, on the current
    stream."""
    runtime, stream = cupy.cuda.runtime, cupy.cuda.get_current_stream().ptr
    size = source.layout.rows * source.layout.pitch_bytes
    runtime.memcpyAsync(matrix.address, source.address, size, runtime.memcpyDeviceToDevice, stream)


def download(matrix: DeviceMatrix, address: int, watch: StopWatch, arrives: Callable[[int], None] | None) -> None:
    """Starts the copy of the matrix, in stored order, to host memory that is registered with CUDA. `arrives` is told
    how many bytes of it the stream has by now, several times."""
    kind, source = cupy.cuda.runtime.memcpyDeviceToHost, matrix.address
    with watch:
        for piece in _downloaded(matrix.layout):
            _copy(address + piece.host_offset, source + piece.device_offset, matrix, piece, kind)
            if arrives is not None:
                arrives(piece.host_offset + piece.bytes)


@lru_cache(maxsize=64)
def _downloaded(layout: Layout) -> tuple[Piece, ...]:
    return layout.shrinking_pieces(DOWNLOADED_BYTES, LAST_DOWNLOADED_BYTES)


def _copy(to: int, source: int, matrix: DeviceMatrix, piece: Piece, kind: int) -> None:
    """Copies one piece between the matrix and host memory, where rows have no gaps."""
    runtime, stream = cupy.cuda.runtime, cupy.cuda.get_current_stream().ptr
    pitch = matrix.layout.pitch_bytes
    if piece.height == 1:
        runtime.memcpyAsync(to, source, piece.bytes, kind, stream)
    elif kind == runtime.memcpyHostToDevice:
        runtime.memcpy2DAsync(to, pitch, source, piece.width_bytes, piece.width_bytes, piece.height, kind, stream)
    else:
        runtime.memcpy2DAsync(to, piece.width_bytes, source, pitch, piece.width_bytes, piece.height, kind, stream)


class Staging:
    """Two pinned staging buffers: while the caller reads one, the next piece is copied into the other. Also holds
    streams for the copy of a product to its place and for reading that back, and events that are free.
    """

    def __init__(self) -> None:
        self.download_stream, self.read_back_stream = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        self.spare_events: list[Any] = []
        self._arrival = cupy.cuda.Event(disable_timing=True)
        self._buffers = [np.frombuffer(cupy.cuda.alloc_pinned_memory(STAGING_BYTES), np.uint8) for _ in range(2)]
        self._addresses = [int(each.ctypes.data) for each in self._buffers]

    def synchronize(self) -> None:
        """Waits for the current stream and those for copies: nothing may still be written or read when memory of the
        host is given back."""
        for stream in (cupy.cuda.get_current_stream(), self.download_stream, self.read_back_stream):
            stream.synchronize()

    def watch(self) -> StopWatch:
        return StopWatch(self.spare_events)

    def upload_together(self, matrices: Sequence[tuple[Array, Layout]], watch: StopWatch) -> list[DeviceMatrix]:
        """Starts the copy of small matrices, C order, in one step: they are laid out here as on the device, padding and
        all. To be called again only once the stream has done it. Raises cupy's OutOfMemoryError."""
        ends = list(accumulate((round_up(layout.bytes, MATRIX_ALIGNMENT) for _, layout in matrices), initial=0))
        memory, image = cupy.cuda.alloc(max(ends[-1], 1)), self._buffers[1]
        for at, (elements, layout) in zip(ends, matrices, strict=False):
            room = image[at : at + layout.bytes]
            if layout.bytes > elements.nbytes:
                room[:] = 0
            rows = room.view(elements.dtype).reshape(layout.batch, layout.kept_rows, layout.pitch)
            rows[:, : layout.rows, : layout.columns] = elements
        runtime, stream = cupy.cuda.runtime, cupy.cuda.get_current_stream().ptr
        with watch:
            runtime.memcpyAsync(memory.ptr, self._addresses[1], ends[-1], runtime.memcpyHostToDevice, stream)
        return [DeviceMatrix(layout, memory + at) for at, (_, layout) in zip(ends, matrices, strict=False)]

    def begin_download(self, matrices: Sequence[DeviceMatrix], watch: StopWatch) -> tuple[Any, list[memoryview]]:
        """Starts the copy of small matrices. Returns an event behind it, and where they lie then in stored order, until
        the next download."""
        kind, buffer, at = cupy.cuda.runtime.memcpyDeviceToHost, self._buffers[0], 0
        places: list[memoryview] = []
        with watch:
            for matrix in matrices:
                begin = at
                for piece in matrix.layout.pieces(STAGING_BYTES):
                    place = self._addresses[0] + begin + piece.host_offset
                    _copy(place, matrix.address + piece.device_offset, matrix, piece, kind)
                    at += piece.bytes
                places.append(buffer[begin:at].data)
        self._arrival.record()
        return self._arrival, places

    def download(self, matrix: DeviceMatrix, watch: StopWatch) -> Iterator[memoryview]:
        """The matrix in stored order. Each piece is good until the next is asked for."""
        waiting: tuple[Any, memoryview] | None = None
        for index, piece in enumerate(matrix.layout.pieces(STAGING_BYTES)):
            buffer = self._buffers[index % 2]
            with watch:
                kind = cupy.cuda.runtime.memcpyDeviceToHost
                _copy(self._addresses[index % 2], matrix.address + piece.device_offset, matrix, piece, kind)
            done = cupy.cuda.Event(disable_timing=True)
            done.record()
            if waiting is not None:
                yield _arrived(waiting)
            waiting = done, buffer[: piece.bytes].data
        if waiting is not None:
            yield _arrived(waiting)


def _arrived(waiting: tuple[Any, memoryview]) -> memoryview:
    done, view = waiting
    with LongWait():
        done.synchronize()
    return view


_counters: dict[tuple[int, int], Any] = {}  # memory, by device and stream


def counters_of(stream: int, count: int) -> int:
    """The address of words that launches leave as they find them, zero. Launches of one stream follow each other, so
    they share them, and launches of two streams, which may overlap, do not. Raises cupy's OutOfMemoryError."""
    assert count <= MAX_COUNTERS
    key = cupy.cuda.runtime.getDevice(), stream
    if key not in _counters:
        memory = cupy.cuda.alloc(MAX_COUNTERS * COUNTER_BYTES)
        memory.memset_async(0, MAX_COUNTERS * COUNTER_BYTES)
        _counters[key] = memory
    address: int = _counters[key].ptr
    return address
