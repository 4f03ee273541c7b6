"""Memory tuning for long-lived processes: no pauses for garbage collections that find nothing, and no pages returned to
the system only to be requested again.
"""

from __future__ import annotations

import ctypes
import gc
from threading import Event, Thread

GC_THRESHOLDS = (50_000, 20, 100)  # requests and jobs leave no cycles behind, so looking often finds nothing
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
KEPT_BYTES = 32 << 20  # most free memory at the heap's end that is kept; larger blocks go back when freed
TIDY_EVERY_S = 10.0  # what accumulates in this time is the most memory wasted


def tune_memory(stop: Event) -> None:
    """Call it once, after the objects that live as long as the process have been created. Tidies memory regularly until
    `stop`. Also stops malloc from returning freed buffers of some MiB to the system, because each new one would be
    zeroed page by page again: a 16 MiB download took twice as long. That part does nothing if the C library is not
    glibc.
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
    """Empties the interpreter's free lists: up to 2000 tuples of each size, so 4 MiB in all, and others. They grow by
    one entry every few jobs and would be full only after millions of jobs, so the process would grow all the while.
    Only a full garbage collection empties them, and after `gc.freeze` none starts by itself: GC_THRESHOLDS are never
    reached by the kept tuples, and Python's own rule waits until a quarter of the existing objects are new.
    """
    gc.collect()
