"""Digests of host memory that is registered with CUDA: the memory is copied to the device at the speed of the bus and
digested there. A CPU would take several times as long. Bytes are read back while later ones are still being written:
the bus works at full speed in both directions at once.
"""

from __future__ import annotations

from typing import Any

import cupy

from jobs.matrices.digest import PART, part_begin, part_of
from worker.cuda.check.digest import PendingDigests, launch_digests
from worker.cuda.compile import Compiler
from worker.cuda.memory import DeviceMatrix
from worker.cuda.pitch import layout

# Of 16 KiB: digested at a time. Each time, the digests may have to wait for another product's kernel to end.
PARTS = 1 << 15


def read_back_bytes(size: int) -> int:
    """Memory of the device that it takes for so many bytes."""
    return min(size, (PARTS + 1) * PART)  # the last part may be twice as long


class ReadBack:
    """Of `size` bytes at `address`, at least MIN_DIGESTED_BYTES, which copies on the current stream write in order.
    `stream` is another one."""

    def __init__(self, compiler: Compiler, address: int, size: int, stream: Any) -> None:
        self._compiler, self._address, self._size, self._stream = compiler, address, size, stream
        self._memory = cupy.cuda.alloc(read_back_bytes(size))
        self._copied = self._digested = 0  # bytes
        self._pending: list[PendingDigests] = []

    def arrives(self, end: int) -> None:
        """The copies of all bytes before `end` are on the current stream."""
        written = cupy.cuda.Event(disable_timing=True)
        written.record()
        self._stream.wait_event(written)
        with self._stream:
            self._read(end if end == self._size else part_begin(part_of(end, self._size), self._size))

    def parts(self) -> bytes:
        """The digests of all parts, 8 bytes each, little-endian. All bytes must have arrived. Waits for the device."""
        return b"".join(parts.astype("<u8").tobytes() for each in self._pending for parts in each.result())

    def _read(self, end: int) -> None:
        """Whole parts, up to `end`."""
        runtime = cupy.cuda.runtime
        while self._copied < end:
            last = part_begin(part_of(self._digested, self._size) + PARTS, self._size)
            size, offset = min(end, last) - self._copied, self._copied - self._digested
            source, kind = self._address + self._copied, runtime.memcpyHostToDevice
            runtime.memcpyAsync(self._memory.ptr + offset, source, size, kind, self._stream.ptr)
            self._copied += size
            if self._copied == last:
                self._digest(last)

    def _digest(self, end: int) -> None:
        line = layout("int8", (1, end - self._digested), in_groups=False, dense=True)
        self._pending.append(launch_digests(self._compiler, [DeviceMatrix(line, self._memory)]))
        self._digested = end
