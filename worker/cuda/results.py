"""Results of kernels, copied asynchronously into pinned memory and waited for later."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Self

import cupy
import numpy as np

from jobs.formats.elements import Array
from worker.cuda.compile import Compiler
from worker.cuda.sources import results_program
from worker.device.host_lock import LongWait

WORD_BYTES, THREADS = 8, 256  # as in src/results.cu
MAX_BLOCKS = 64  # enough for the bus


class DeviceResults:
    """The bytes of `memory` from `begin`, a whole word's, to `end`, and room for them on the host. `memory` is kept
    until they have come."""

    def __init__(self, compiler: Compiler, memory: Any, begin: int, end: int) -> None:
        self._memory = memory
        self._bytes = np.frombuffer(cupy.cuda.alloc_pinned_memory(max(end - begin, 1)), np.uint8, end - begin)
        self._copy = _copy_results(compiler)
        self._arguments = np.uint64(memory.ptr + begin), np.uint64(self._bytes.ctypes.data), np.int64(end - begin)
        self.done = cupy.cuda.Event(disable_timing=True)

    def start(self) -> Self:
        """The copy, on the current stream."""
        if size := self._bytes.size:
            self._copy((block_count(size), 1, 1), (THREADS, 1, 1), self._arguments)
        self.done.record()
        return self

    def wait(self) -> Array:
        """The bytes, uint8."""
        if not self.done.done:
            with LongWait():
                self.done.synchronize()
        self._memory = None
        return self._bytes


def block_count(size: int) -> int:
    """Of a copy of so many bytes."""
    return min(-(-size // (THREADS * WORD_BYTES)), MAX_BLOCKS)


@lru_cache(maxsize=16)
def _copy_results(compiler: Compiler) -> Any:
    return compiler.function(results_program(), "copy_results")


def as_parameter(words: list[int] | Array) -> Array:
    """64-bit words as one argument of a kernel, passed by value as they are at the launch. Of an array it is a view."""
    packed = np.asarray(words, np.uint64)
    parameter: Array = packed.view(np.dtype((np.void, packed.nbytes)))
    return parameter


def float_word(value: float) -> int:
    """The bits of a float64."""
    return int(np.float64(value).view(np.uint64))
