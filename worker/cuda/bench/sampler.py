"""Times launches on the GPU without launch overhead of the host and without data of the previous launch in the L2. The
order is NVBench's: overwrite the L2; hold the stream with a kernel that waits for a word from the host; read the clock;
start event; launches; stop event; read the clock; release the stream. The host puts all of it on the stream before
anything is timed (`worker/cuda/gpu/launch_gate.py`). Where the gate opened by itself after HOLD_S the sample is
spoilt.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from jobs.benchmarks.spec import CacheState
from jobs.errors import KernelUnavailable
from worker.cuda.bench.plan import MAX_LAUNCHES, flush_bytes, mean_clock_mhz
from worker.cuda.compile import Compiler
from worker.cuda.gpu.launch_gate import LaunchGate, shared_words
from worker.cuda.sources import benchmark_program
from worker.device.bench import Sample

HOLD_S = 10.0

Launch = Callable[[int], None]  # puts one launch on the stream; argument: launches still to come


class Sampler:
    """For the current device and thread. Everything goes on the stream that is current when it is asked for."""

    def __init__(self, compiler: Compiler, l2_bytes: int | None, multiprocessors: int) -> None:
        program = benchmark_program()
        self._gate = LaunchGate(compiler, HOLD_S)
        self._stamp = compiler.function(program, "stamp")
        self._multiprocessors = multiprocessors
        self._flush_bytes = flush_bytes(l2_bytes)
        self._flush: Any = None
        self._stamps = shared_words(4 * multiprocessors).reshape(2, multiprocessors, 2)
        self._start, self._stop = cupy.cuda.Event(), cupy.cuda.Event()
        self._samples = 0
        self._load()

    def sample(self, launch: Launch, reps: int, cache: CacheState) -> Sample:
        """Times `reps` consecutive launches, at most MAX_LAUNCHES. Each must have been launched before, once.

        Raises KernelUnavailable where a launch waited for the device.
        """
        reps = min(reps, MAX_LAUNCHES)
        self._samples += 1
        self._stamps[...] = 0
        if cache == "cold":
            self._write_over_l2()
        try:
            self._gate.close()
            self._put_stamp(0)
            self._start.record()
            begun = time.perf_counter()
            for after in reversed(range(reps)):
                launch(after)
            launch_s = time.perf_counter() - begun
            self._stop.record()
            self._put_stamp(1)
        finally:
            self._gate.open()
        cupy.cuda.get_current_stream().synchronize()
        if self._gate.gave_up:
            raise KernelUnavailable("Its launch waits for the device, so it cannot be timed here.")
        time_us = cupy.cuda.get_elapsed_time(self._start, self._stop) * 1e3 / reps
        return Sample(float(time_us), mean_clock_mhz(self._stamps), launch_s * 1e6 / reps)

    def _load(self) -> None:
        """The driver loads a kernel at its first launch, and may wait for the device then: not while that is held."""
        self._put_stamp(0)
        cupy.cuda.get_current_stream().synchronize()

    def _write_over_l2(self) -> None:
        if self._flush is None:
            self._flush = cupy.cuda.alloc(self._flush_bytes)
        self._flush.memset_async(self._samples % 256, self._flush_bytes)

    def _put_stamp(self, which: int) -> None:
        """Reads the clock with one block per multiprocessor; if two blocks share one, another has no reading and is
        ignored.
        """
        place = np.uint64(self._stamps[which].ctypes.data)
        self._stamp((self._multiprocessors,), (1,), (place, np.uint64(self._multiprocessors)))
