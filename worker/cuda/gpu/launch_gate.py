"""Holds a stream until everything that is timed together is queued, so that Python's launch cost is not measured. The
gate is a kernel that waits for a word from the host, as in NVBench.

What waits for the device in between (an allocation, a kernel that the driver has still to load) would wait for ever, so
the gate opens by itself after a time.
"""

from __future__ import annotations

import cupy
import numpy as np

from jobs.formats.elements import Array
from worker.cuda.calls import Arguments, Call
from worker.cuda.compile import Compiler
from worker.cuda.sources import benchmark_program

FLAG, GAVE_UP = 0, 8  # places of words, a cache line apart
WORDS = 16
TICKET = 1  # of the arguments


class LaunchGate:
    """For the current device and one thread."""

    def __init__(self, compiler: Compiler, hold_s: float) -> None:
        self._words = shared_words(WORDS)
        self._ticket = 0
        flag, gave_up = (np.uint64(self._words.ctypes.data + 8 * place) for place in (FLAG, GAVE_UP))
        arguments = Arguments.of((flag, np.uint64(0), np.uint64(int(hold_s * 1e9)), gave_up))
        self._wait = Call(compiler.function(benchmark_program(), "wait_for"), (1, 1, 1), (1, 1, 1), arguments)
        # The driver loads a kernel at its first launch, and may wait for the device then: not while that is held.
        self._wait.put(cupy.cuda.get_current_stream().ptr)
        cupy.cuda.get_current_stream().synchronize()

    def close(self) -> None:
        """Holds the current stream."""
        self._ticket += 1
        self._wait.arguments.set(TICKET, self._ticket)
        self._wait.put(cupy.cuda.get_current_stream().ptr)

    def open(self) -> None:
        """Releases the stream."""
        self._words[FLAG] = self._ticket

    @property
    def gave_up(self) -> bool:
        """Whether the gate opened by its timeout the last time; known once the stream has passed it."""
        return bool(self._words[GAVE_UP] == self._ticket)


def shared_words(count: int) -> Array:
    """Page-locked: with one address space for host and device, both read and write it where it lies."""
    memory = cupy.cuda.alloc_pinned_memory(8 * count)
    words: Array = np.frombuffer(memory, np.uint64, count)
    words[...] = 0
    return words
