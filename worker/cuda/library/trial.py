"""Finds the fastest of several ways to launch a product, with a cold cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import median

import cupy

from jobs.errors import KernelUnavailable
from worker.cuda.compile import Compiler
from worker.cuda.gpu.kernel_clock import KernelClock

TRIAL_MS = 30.0  # of the device's time, about, for all that is tried at a problem's first use
MIN_WAYS = 2  # are tried however long they take: the first is the library's own choice, the next its best proposal
LAUNCHES = 2  # of each way are timed
FINALISTS, MORE_LAUNCHES = 3, 5  # so many of the fastest, and the first way, are timed again, so often
FLUSHED = 2  # caches' worth of memory is written before each


class Trial:
    """For the current device, and for one thread."""

    def __init__(self, compiler: Compiler) -> None:
        self._clock = KernelClock(compiler)

    def fastest(self, ways: Sequence[Callable[[], None]]) -> int:
        """The index of the fastest way, among those for which there is time, at least two; a way that raises
        KernelUnavailable is skipped. The minimum over many ways favours lucky launches, so the few fastest ways, and
        the first, are timed again. The product has been computed when this returns. Raises KernelUnavailable if no way
        works, DeviceFault.
        """
        spent_ms = 0.0
        timed: list[tuple[float, int]] = []
        for index, way in enumerate(ways):
            with suppress(KernelUnavailable):
                ms = min(self._kernel_ms(way, LAUNCHES))
                timed.append((ms, index))
                spent_ms += (LAUNCHES + 1) * ms
            if spent_ms >= TRIAL_MS and len(timed) >= MIN_WAYS:
                break
        if not timed:
            raise KernelUnavailable("cuBLAS has no way to multiply this here; use another kernel.")
        timed.sort()
        finalists = {index for _, index in timed[:FINALISTS]} | {min(index for _, index in timed)}
        if spent_ms < TRIAL_MS and len(finalists) > 1:
            timed = sorted((median(self._kernel_ms(ways[each], MORE_LAUNCHES)), each) for each in finalists)
        return timed[0][1]

    def _kernel_ms(self, launch: Callable[[], None], launches: int) -> list[float]:
        """The time of each launch. Raises KernelUnavailable."""
        self._clock.kernel_ms(launch, is_loaded=False)
        times_ms = []
        for _ in range(launches):
            flush()
            times_ms.append(self._clock.kernel_ms(launch, is_loaded=True))
        return times_ms


def flush() -> None:
    """Writes over the device's cache, as far as there is memory for that, on the current stream."""
    count = FLUSHED * cupy.cuda.Device().attributes["L2CacheSize"]
    with suppress(cupy.cuda.memory.OutOfMemoryError):
        cupy.cuda.alloc(count).memset_async(0, count)
