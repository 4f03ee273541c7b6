"""What a long-lived process asks of its memory: no pauses to look for garbage where there is none, no pages given back
only to be asked for again.
"""

from __future__ import annotations

import ctypes
import gc

GC_THRESHOLDS = (50_000, 20, 100)  # requests and jobs leave no cycles behind, so looking often finds nothing
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
KEPT_BYTES = 32 << 20  # most free memory at the heap's end that is kept; larger blocks go back when freed


def settle_memory() -> None:
    """To be called once, when what lives as long as the process has been made.

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
