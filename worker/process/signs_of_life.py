"""Whether a worker's two processes run at all.

A child that is stopped, or that hangs inside the interpreter, loses its jobs when their leases end, but it would hold
its device's memory until somebody ends it: so its parent does. A parent that is stopped fetches no messages, so its
child reports the worker as one that takes no jobs.
"""

from __future__ import annotations

import math
import mmap
import struct
import time
from threading import Thread

GIVE_EVERY_S = LOOK_EVERY_S = 0.5
LEASES = 2.0  # without a sign, until a child is ended

_COUNT = struct.Struct("=Q")


class SignsOfLife:
    """A counter in memory that the parent shares with the children it forks. One of them counts, the other looks."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._seen = self._looks = 0

    def begin(self) -> None:
        """In a child that takes jobs from now on: a thread gives signs until the process ends."""
        Thread(target=self._run, name="sign of life", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.give()
            time.sleep(GIVE_EVERY_S)

    def give(self) -> None:
        _COUNT.pack_into(self._memory, 0, self.count + 1)

    def forget(self) -> None:
        """In the parent, when a child has ended: the next one is not judged before its first sign."""
        _COUNT.pack_into(self._memory, 0, 0)

    def has_stopped(self, lease_s: float) -> bool:
        """In the parent, every LOOK_EVERY_S: whether no sign came for LEASES times `lease_s`."""
        return self.is_silent(math.ceil(LEASES * lease_s / LOOK_EVERY_S))

    def is_silent(self, looks: int) -> bool:
        """Whether there was a sign once, and none for more than so many looks, of which this is one. They are counted
        rather than time, for a process that was itself stopped has to give the other one time to go on.
        """
        count = self.count
        self._looks = self._looks + 1 if count == self._seen else 0
        self._seen = count
        return count > 0 and self._looks > looks

    @property
    def count(self) -> int:
        """Signs of the present child, or of the parent."""
        count: int = _COUNT.unpack_from(self._memory, 0)[0]
        return count


signs_of_life = SignsOfLife()  # of the child; made before any child is forked
parent_signs = SignsOfLife()  # of the parent's event loop, which fetches messages
