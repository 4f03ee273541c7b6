"""A lock that lets only one thread of a child do host work at a time.

CPython may switch threads at each call that might block: about eighty per product, most of which last a few
microseconds. If several threads have work, each such call may wake another thread and then wait until that one blocks,
which takes longer than the work itself. So a thread with a job keeps its turn until it waits for something long: the
device, Redis, or another product.

The lock is only advisory: a thread that waits too long continues without a turn, so nothing depends on who has it.
"""

from __future__ import annotations

from threading import Lock, local
from types import TracebackType
from typing import Self

LONGEST_S = 0.01  # longest wait of a thread for its turn


class _OfThread(local):
    takes_turns = False
    has_turn = False


_turn = Lock()
_of_thread = _OfThread()


def _begin() -> None:
    _of_thread.has_turn = _turn.acquire(timeout=LONGEST_S)


def _end() -> None:
    if _of_thread.has_turn:
        _of_thread.has_turn = False
        _turn.release()


class TakingTurns:
    """Holds the turn for this thread during the context, except inside `LongWait`."""

    def __enter__(self) -> Self:
        _of_thread.takes_turns = True
        _begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _of_thread.takes_turns = False
        _end()


class LongWait:
    """Releases the turn during a long wait. It may be used by any thread; in threads without turns it does nothing."""

    def __enter__(self) -> Self:
        _end()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if _of_thread.takes_turns and not _of_thread.has_turn:
            _begin()
