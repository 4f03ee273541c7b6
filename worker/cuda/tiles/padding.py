"""Clears the padding of panels while a tile is computed, by copies of zeros from the host's memory.

A memset of a device's memory is a kernel. On a stream of copies it would wait until the tile's kernel leaves it a
multiprocessor, which is when that ends, and the panel's copies would wait behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

import cupy
import numpy as np

from worker.cuda.from_host.copies import Copy, start_copy
from worker.cuda.memory import DeviceMatrix

ZEROS_BYTES = 1 << 20


class Zeros:
    """Page-locked."""

    def __init__(self) -> None:
        self._bytes = np.frombuffer(cupy.cuda.alloc_pinned_memory(ZEROS_BYTES), np.uint8)
        self._bytes[:] = 0

    def clear_padding(self, matrix: DeviceMatrix, stream: int) -> None:
        """Clears the padding on that stream; these zeros must live until it has done so."""
        for copy in self._copies(matrix):
            start_copy(copy, stream, to_device=True)

    def _copies(self, matrix: DeviceMatrix) -> Iterator[Copy]:
        layout, zeros = matrix.layout, int(self._bytes.ctypes.data)
        below, beside = layout.cleared
        pitch, of_item = layout.pitch_bytes, layout.kept_rows * layout.pitch_bytes
        for item in range(layout.batch if below else 0):
            first = matrix.address + item * of_item + layout.rows * pitch
            for at in range(0, below * pitch, ZEROS_BYTES):
                size = min(ZEROS_BYTES, below * pitch - at)
                yield Copy(first + at, size, zeros, size, size, 1)
        width, rows = beside * layout.itemsize, layout.rows if layout.batch == 1 else layout.batch * layout.kept_rows
        together = ZEROS_BYTES // width if width else 1
        for row in range(0, rows if width else 0, together):
            height = min(together, rows - row)
            yield Copy(matrix.address + row * pitch + layout.row_bytes, pitch, zeros, width, width, height)
