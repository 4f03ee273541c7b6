"""A lock whose waiters can be cancelled. Such a lock guards a device's cores: one product at a time holds it for its
kernel and check (on a GPU for their launches: `worker/cuda/gpu/cores.py`), while other products are copied. So a
kernel has the device to itself, and its measured time is not disturbed.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from types import TracebackType
from typing import Self

from worker.device.host_lock import LongWait

LOOK_EVERY_S = 0.05  # interval at which a waiter asks whether it is cancelled


def never_cancelled() -> None:
    """The `check_cancelled` of work that nobody cancels."""


class LockRequest:
    """One thread's claim to the lock; leaving the context releases it. `acquire` and `release` may be called
    repeatedly."""

    def __init__(self, lock: RLock, check_cancelled: Callable[[], None]) -> None:
        self._lock, self._check_cancelled = lock, check_cancelled
        self._is_ours = False

    def acquire(self) -> None:
        """Waits until the lock is free. Calls `check_cancelled` meanwhile, and raises what that raises."""
        self._is_ours = self._is_ours or self._lock.acquire(blocking=False)
        while not self._is_ours:
            with LongWait():
                self._is_ours = self._lock.acquire(timeout=LOOK_EVERY_S)
            if not self._is_ours:
                self._check_cancelled()

    def release(self) -> None:
        """Lets the next waiter have the lock."""
        if self._is_ours:
            self._is_ours = False
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


class CancellableLock:
    """The lock. Safe to share between threads."""

    def __init__(self) -> None:
        self.lock = RLock()  # the thread that holds it may compute another product at the same time

    def request(self, check_cancelled: Callable[[], None] = never_cancelled) -> LockRequest:
        """A request that has not acquired the lock yet. `check_cancelled` raises once the caller no longer wants it."""
        return LockRequest(self.lock, check_cancelled)
