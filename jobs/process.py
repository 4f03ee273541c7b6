"""What a long-lived process asks of its memory: no pauses to look for garbage where there is none, no pages given back
only to be asked for again.
"""

from __future__ import annotations

import ctypes
import gc
from threading import Event, Thread

GC_THRESHOLDS = (50_000, 20, 100)  # requests and jobs leave no cycles behind, so looking often finds nothing
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
KEPT_BYTES = 32 << 20  # most free memory at the heap's end that is kept; larger blocks go back when freed
TIDY_EVERY_S = 10.0  # what comes together meanwhile is the most that a process has too much


def settle_memory(stop: Event) -> None:
    """To be called once, when what lives as long as the process has been made. Tidies now and then until `stop`.

    Buffers of some MiB, freed, would go back to the system, and each new one be zeroed page by page again: a 16 MiB
    download took twice as long that way. Where the C library is not glibc, that part is left as it is.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    Thread(target=_tidy_until, args=(stop,), name="tidy memory", daemon=True).start()


def _tidy_until(stop: Event) -> None:
    while not stop.wait(TIDY_EVERY_S):
        tidy_memory()


def tidy_memory() -> None:
    """Has the interpreter free what it keeps for later: up to 2000 tuples of each size, so 4 MiB in all, and others.

    It keeps one more every few jobs and would be full after millions, growing all the while. Only a search through all
    that may be garbage lets go of it, and after `gc.freeze` none comes by itself: neither at GC_THRESHOLDS, which the
    kept tuples never reach, nor at Python's own, which wait for a quarter of what was there before.
    """
    gc.collect()
