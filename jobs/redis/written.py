"""Whether all that Redis answered is in its append-only file, where it outlives a crash of Redis.

Redis writes to its file before it sends replies, with two exceptions. A write that failed is answered all the same, and
every script that may write is refused from then on. And while the file is synced (`appendfsync everysec`), Redis holds
later changes back in its memory, for up to two seconds (`flushAppendOnlyFile`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from jobs.errors import StoreUnavailable

HELD_BACK_S = 5.0  # Redis writes after two seconds even if the sync has not ended
PAUSE_S = 0.005
HELD_BACK = "The job store has not written this to its disk yet, which is busy; try again in a moment."


class WrittenQuestion:
    """One question, which may take several replies of the script `written`; each is sent after the one before came."""

    def __init__(self, wait_s: float = HELD_BACK_S) -> None:
        self._deadline = time.monotonic() + wait_s
        self._wrote = False

    def pause_s(self, reply: Sequence[int]) -> float | None:
        """None if all that was answered before the question is in the file; otherwise how long to wait before the
        script is run again. Raises StoreUnavailable once the time is over.
        """
        waiting_bytes, is_syncing = reply
        if self._wrote or not waiting_bytes:
            return None
        if not is_syncing:  # it wrote before it sent this reply; the next one says whether that failed
            self._wrote = True
            return 0.0
        if time.monotonic() >= self._deadline:
            raise StoreUnavailable(HELD_BACK)
        return PAUSE_S
