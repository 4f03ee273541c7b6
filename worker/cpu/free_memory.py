"""Checks that the host has enough free memory before an allocation, because the system would otherwise kill the
process.
"""

from __future__ import annotations

from worker.cpu.device import available_bytes
from worker.device.runner import DoesNotFit

LOOKED_AT_BYTES = 16 << 20  # smaller allocations are not checked
SPARE_BYTES = 256 << 20  # left free beside: blocks in other types, the check, the process itself


def check_free_memory(need_bytes: int, what: str) -> None:
    """`what` begins the sentence. Raises DoesNotFit."""
    if need_bytes < LOOKED_AT_BYTES:
        return
    need, free = need_bytes + SPARE_BYTES, available_bytes()
    if free is not None and need > free:
        raise DoesNotFit(f"{what} {need} bytes of memory, of which {free} are free; make it smaller or try later.")
