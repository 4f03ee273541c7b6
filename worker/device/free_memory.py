"""Free memory of a device, for products so small that asking for it again would take some percent of their time."""

from __future__ import annotations

import time
from collections.abc import Callable

# The products that are begun in so short a time cannot fill what was free, if each needs at most this part of it.
KNOWN_S, PARTS = 0.02, 16


class FreeMemory:
    """`ask` says how many bytes are free. For any threads."""

    def __init__(self, ask: Callable[[], int]) -> None:
        self._ask = ask
        self._known = 0, 0.0  # bytes, and time.monotonic() until which they are

    def has(self, need: int) -> bool:
        """Whether this many bytes are free. If they are few, what was free a moment ago decides."""
        free, until = self._known
        if PARTS * need <= free and time.monotonic() < until:
            return True
        free = self._ask()
        self._known = free, time.monotonic() + KNOWN_S
        return need <= free
