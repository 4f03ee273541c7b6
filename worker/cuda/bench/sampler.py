"""Times launches on the GPU so that neither the host nor the last launch's leftovers in the L2 take part.

The order is NVBench's: write over the L2; hold the stream with a kernel that waits for a word from the host; stamp the
clock; start event; launches; stop event; stamp again; let go. The host puts all of it on the stream before anything is
timed, so what a launch costs Python lies outside the time. What waits for the device in between (an allocation, the
first launch of a kernel) would wait for ever, so the hold ends by itself after HOLD_S, and the sample is spoilt.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from jobs.benchmarks.spec import CacheState
from jobs.errors import KernelUnavailable
from jobs.formats.elements import Array
from worker.cuda.bench.plan import MAX_LAUNCHES, flush_bytes, mean_clock_mhz
from worker.cuda.compile import Compiler
from worker.cuda.sources import benchmark_program
from worker.device.bench import Sample

HOLD_S = 10.0
FLAG, GAVE_UP, STAMPS = 0, 8, 16  # places in the shared words, a cache line apart

Launch = Callable[[int], None]  # puts one launch on the current stream; told how many of the sample come after it


class Sampler:
    """For the current device and thread. Everything goes on the stream that is current when it is asked for."""

    def __init__(self, compiler: Compiler, l2_bytes: int | None, multiprocessors: int) -> None:
        program = benchmark_program()
        self._wait = compiler.function(program, "wait_for")
        self._stamp = compiler.function(program, "stamp")
        self._multiprocessors = multiprocessors
        self._flush_bytes = flush_bytes(l2_bytes)
        self._flush: Any = None
        self._words = _shared_words(STAMPS + 4 * multiprocessors)
        self._stamps = self._words[STAMPS:].reshape(2, multiprocessors, 2)
        self._start, self._stop = cupy.cuda.Event(), cupy.cuda.Event()
        self._ticket = 0
        self._load()

    def sample(self, launch: Launch, reps: int, cache: CacheState) -> Sample:
        """So many launches after one another, at most MAX_LAUNCHES. Each must have been launched before, once.

        Raises KernelUnavailable where a launch waited for the device.
        """
        reps = min(reps, MAX_LAUNCHES)
        self._ticket += 1
        self._stamps[...] = 0
        if cache == "cold":
            self._write_over_l2()
        try:
            self._hold()
            self._put_stamp(0)
            self._start.record()
            begun = time.perf_counter()
            for after in reversed(range(reps)):
                launch(after)
            launch_s = time.perf_counter() - begun
            self._stop.record()
            self._put_stamp(1)
        finally:
            self._words[FLAG] = self._ticket
        cupy.cuda.get_current_stream().synchronize()
        if self._words[GAVE_UP] == self._ticket:
            raise KernelUnavailable("Its launch waits for the device, so it cannot be timed here.")
        time_us = cupy.cuda.get_elapsed_time(self._start, self._stop) * 1e3 / reps
        return Sample(float(time_us), mean_clock_mhz(self._stamps), launch_s * 1e6 / reps)

    def _load(self) -> None:
        """The driver loads a kernel at its first launch, and may wait for the device then: not while that is held."""
        self._put_stamp(0)
        self._hold()  # not at all: the word it waits for is there
        cupy.cuda.get_current_stream().synchronize()

    def _write_over_l2(self) -> None:
        if self._flush is None:
            self._flush = cupy.cuda.alloc(self._flush_bytes)
        self._flush.memset_async(self._ticket % 256, self._flush_bytes)

    def _hold(self) -> None:
        address = self._words.ctypes.data
        flag, gave_up = np.uint64(address + 8 * FLAG), np.uint64(address + 8 * GAVE_UP)
        self._wait((1,), (1,), (flag, np.uint64(self._ticket), np.uint64(int(HOLD_S * 1e9)), gave_up))

    def _put_stamp(self, which: int) -> None:
        """A block for each multiprocessor; where two land on one, others have none, and are not asked."""
        place = np.uint64(self._stamps[which].ctypes.data)
        self._stamp((self._multiprocessors,), (1,), (place, np.uint64(self._multiprocessors)))


def _shared_words(count: int) -> Array:
    """Page-locked: with one address space for host and device, both read and write it where it lies."""
    memory = cupy.cuda.alloc_pinned_memory(8 * count)
    words: Array = np.frombuffer(memory, np.uint64, count)
    words[...] = 0
    return words
