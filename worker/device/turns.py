"""A device's cores, for one product at a time: its kernel and its check. Copies of other products go on beside them.

So a kernel has the device to itself, and its time is its own, while several jobs are under way.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from types import TracebackType
from typing import Self

LOOK_EVERY_S = 0.05  # whether a product that waits is still wanted


def go_on() -> None:
    """Still wanted."""


class Turn:
    """Of one product, for use by its thread: taken by `begin`, given up by `end` or with the context. Both may be
    called again."""

    def __init__(self, lock: RLock, wanted: Callable[[], None]) -> None:
        self._lock, self._wanted = lock, wanted
        self._is_ours = False

    def begin(self) -> None:
        """Waits for the products before. Raises what `wanted` does, which is called meanwhile."""
        while not self._is_ours:
            self._is_ours = self._lock.acquire(timeout=LOOK_EVERY_S)
            if not self._is_ours:
                self._wanted()

    def end(self) -> None:
        """The cores are the next product's."""
        if self._is_ours:
            self._is_ours = False
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.end()


class Turns:
    """Of one device, for any threads."""

    def __init__(self) -> None:
        self._lock = RLock()  # a thread that has the cores may compute another product meanwhile

    def next(self, wanted: Callable[[], None] = go_on) -> Turn:
        """A turn that has not begun."""
        return Turn(self._lock, wanted)
