"""A lock that lets only one thread of a child do host work at a time.

CPython may switch threads at each call that might block: about eighty per product, most of which last a few
microseconds. If several threads have work, each such call may wake another thread and then wait until that one blocks,
which takes longer than the work itself. So a thread with a job keeps the lock until it waits for something long: the
device, Redis, or another product.

The lock is only advisory: a thread that waits too long continues without it, so nothing depends on who has it.
"""

from __future__ import annotations

from threading import Lock, local
from types import TracebackType
from typing import Self

LONGEST_S = 0.01  # longest wait of a thread for the lock


class _OfThread(local):
    wants_lock = False
    has_lock = False


_lock = Lock()
_of_thread = _OfThread()


def _acquire() -> None:
    _of_thread.has_lock = _lock.acquire(timeout=LONGEST_S)


def _release() -> None:
    if _of_thread.has_lock:
        _of_thread.has_lock = False
        _lock.release()


class HostLock:
    """Holds the lock for this thread during the context, except inside `LongWait`."""

    def __enter__(self) -> Self:
        _of_thread.wants_lock = True
        _acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _of_thread.wants_lock = False
        _release()


class LongWait:
    """Releases the lock during a long wait. For any thread; in one that does not take the lock, it does nothing."""

    def __enter__(self) -> Self:
        _release()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if _of_thread.wants_lock and not _of_thread.has_lock:
            _acquire()
