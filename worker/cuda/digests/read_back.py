"""Digests of host memory that is registered with CUDA: the memory is copied to the device at the speed of the bus and
digested there. A CPU would take several times as long. Bytes are read back while later ones are still being written:
the bus works at full speed in both directions at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import cupy

from jobs.matrices.digest import PART, part_begin, part_of
from worker.cuda.compile import Compiler
from worker.cuda.digests.launch import PendingDigests, launch_digests
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
        self._arrived = 0  # bytes
        self._pending: list[PendingDigests] = []

    def arrives(self, end: int) -> None:
        """The copies of all bytes before `end` are on the current stream."""
        written = cupy.cuda.Event(disable_timing=True)
        written.record()
        self._stream.wait_event(written)
        runtime, stream = cupy.cuda.runtime, self._stream.ptr
        for read in _reads(self._size, self._arrived, end, PARTS):
            source, to = self._address + read.begin, self._memory.ptr + read.place
            runtime.memcpyAsync(to, source, read.bytes, runtime.memcpyHostToDevice, stream)
            if read.block_bytes:
                self._digest(read.block_bytes)
        self._arrived = end

    def parts(self) -> bytes:
        """The digests of all parts, 8 bytes each, little-endian. All bytes must have arrived. Waits for the device."""
        return b"".join(parts.astype("<u8").tobytes() for each in self._pending for parts in each.result())

    def _digest(self, size: int) -> None:
        line = layout("int8", (1, size), in_groups=False, dense=True)
        with self._stream:
            self._pending.append(launch_digests(self._compiler, [DeviceMatrix(line, self._memory)]))


class Read(NamedTuple):
    """A copy of `bytes` from `begin` on to `place` in the device's memory. `block_bytes`: what lies there then and is
    to be digested; 0: not yet."""

    begin: int
    place: int
    bytes: int
    block_bytes: int


@lru_cache(maxsize=1024)
def _reads(size: int, arrived: int, end: int, parts: int) -> tuple[Read, ...]:
    """Of the whole parts of a matrix of `size` bytes that have come, where those before `arrived` came earlier; in
    blocks of so many parts."""
    copied, until, reads = _whole_parts(arrived, size), _whole_parts(end, size), []
    while copied < until:
        block = part_of(copied, size) // parts * parts
        first, last = part_begin(block, size), part_begin(block + parts, size)
        count = min(until, last) - copied
        is_full = copied + count == last
        reads.append(Read(copied, copied - first, count, last - first if is_full else 0))
        copied += count
    return tuple(reads)


def _whole_parts(arrived: int, size: int) -> int:
    """The bytes of those that have come."""
    return arrived if arrived == size else part_begin(part_of(arrived, size), size)
