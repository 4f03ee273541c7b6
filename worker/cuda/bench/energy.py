"""Energy of one launch, by the GPU's own counter.

The counter is refreshed every 20 to 100 ms, so it is read when it changes: the first and last change enclose a steady
run of launches, and what the device did before and after does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import cupy

BATCH_MS = 5.0  # of launches between two looks at the counter
MAX_IN_BATCH = 512
COUNTER_TIMEOUT_S = 2.0  # beyond the window, for a counter that does not move


def energy_mj(
    counter_mj: Callable[[], int | None], launch: Callable[[], None], time_us: float, window_s: float
) -> float | None:
    """Millijoules of a launch that takes about `time_us`, over at least `window_s`; None without a counter that moves.

    Two batches are on the stream at any time, so the device does not wait for the host to look.
    """
    last = counter_mj()
    if last is None:
        return None
    batch = max(1, min(MAX_IN_BATCH, int(BATCH_MS * 1e3 / max(time_us, 1.0))))
    launched, first, before = 0, None, None
    give_up = time.monotonic() + window_s + COUNTER_TIMEOUT_S
    while (now := time.monotonic()) < give_up:
        for _ in range(batch):
            launch()
        launched += batch
        done = cupy.cuda.Event(disable_timing=True)
        done.record()
        if before is not None:
            before.synchronize()
        before = done
        reading = counter_mj()
        if reading is None or reading == last:
            continue
        last = reading
        if first is None:
            first = reading, launched, now
        elif now - first[2] >= window_s:
            return (reading - first[0]) / (launched - first[1])
    return None
