"""Results of kernels, copied asynchronously into pinned memory and waited for later."""

from __future__ import annotations

from typing import Any, Self

import cupy
import numpy as np

from jobs.formats.elements import Array
from worker.device.host_lock import LongWait


class DeviceResults:
    """Room for so many bytes of `memory`, which is kept until they have come."""

    def __init__(self, memory: Any, begin: int, end: int) -> None:
        self._memory = memory
        self._bytes = np.frombuffer(cupy.cuda.alloc_pinned_memory(max(end - begin, 1)), np.uint8, end - begin)
        self._source, self._to = memory.ptr + begin, self._bytes.ctypes.data
        self.done = cupy.cuda.Event(disable_timing=True)

    def start(self) -> Self:
        """The copy, on the current stream."""
        runtime, stream = cupy.cuda.runtime, cupy.cuda.get_current_stream()
        if self._bytes.size:
            runtime.memcpyAsync(self._to, self._source, self._bytes.size, runtime.memcpyDeviceToHost, stream.ptr)
        self.done.record(stream)
        return self

    def wait(self) -> Array:
        """The bytes, uint8."""
        if not self.done.done:
            with LongWait():
                self.done.synchronize()
        self._memory = None
        return self._bytes


def as_parameter(words: list[int] | Array) -> Array:
    """64-bit words as one argument of a kernel, passed by value as they are at the launch. Of an array it is a view."""
    packed = np.asarray(words, np.uint64)
    parameter: Array = packed.view(np.dtype((np.void, packed.nbytes)))
    return parameter


def float_word(value: float) -> int:
    """The bits of a float64."""
    return int(np.float64(value).view(np.uint64))
