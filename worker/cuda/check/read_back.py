"""Digests of what lies in host memory that is registered with CUDA: it is copied to the device at the speed of the bus,
and digested there. A CPU would take several times as long.
"""

from __future__ import annotations

import cupy

from jobs.matrices.digest import PART, part_begin, part_count
from worker.cuda.check.digest import launch_digests
from worker.cuda.compile import Compiler
from worker.cuda.memory import DeviceMatrix
from worker.cuda.pitch import layout

# Of 16 KiB: copied at a time. Each time, the digests may have to wait for another product's kernel to end.
PARTS = 1 << 15


def read_back_bytes(size: int) -> int:
    """Memory of the device that it takes for so many bytes."""
    return min(size, (PARTS + 1) * PART)  # the last part may be twice as long


def digests_read_back(compiler: Compiler, address: int, size: int) -> bytes:
    """Of the parts of `size` bytes, 8 bytes each, little-endian. `size` is at least MIN_DIGESTED_BYTES."""
    runtime, stream = cupy.cuda.runtime, cupy.cuda.get_current_stream().ptr
    count = part_count(size)
    memory = cupy.cuda.alloc(read_back_bytes(size))
    pending = []
    for first in range(0, count, PARTS):
        begin, end = part_begin(first, size), part_begin(min(first + PARTS, count), size)
        runtime.memcpyAsync(memory.ptr, address + begin, end - begin, runtime.memcpyHostToDevice, stream)
        line = layout("int8", (1, end - begin), in_groups=False, dense=True)
        pending.append(launch_digests(compiler, [DeviceMatrix(line, memory)]))
    return b"".join(parts.astype("<u8").tobytes() for each in pending for parts in each.result())
