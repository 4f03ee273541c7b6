"""Results of kernels on their way to the host: copied into pinned memory behind the kernels, waited for later."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from jobs.formats.elements import Array


class DeviceResults:
    """Starts the copy of so many bytes on the current stream; `memory` is kept until they have come."""

    def __init__(self, memory: Any, begin: int, end: int) -> None:
        self._memory = memory
        self._bytes = np.frombuffer(cupy.cuda.alloc_pinned_memory(max(end - begin, 1)), np.uint8, end - begin)
        if end > begin:
            runtime, stream = cupy.cuda.runtime, cupy.cuda.get_current_stream().ptr
            source, to = memory.ptr + begin, self._bytes.ctypes.data
            runtime.memcpyAsync(to, source, end - begin, runtime.memcpyDeviceToHost, stream)
        self._done = cupy.cuda.Event(disable_timing=True)
        self._done.record()

    def wait(self) -> Array:
        """The bytes, uint8."""
        self._done.synchronize()
        self._memory = None
        return self._bytes


def as_parameter(words: list[int]) -> Array:
    """64-bit words as one argument of a kernel, passed by value."""
    packed = np.array(words, np.uint64)
    parameter: Array = packed.view(np.dtype((np.void, packed.nbytes)))
    return parameter


def float_word(value: float) -> int:
    """The bits of a float64."""
    return int(np.float64(value).view(np.uint64))
