"""Turns that the threads of a child take at the interpreter.

CPython lets another thread go on at each call that might block: at some eighty for a product, most of which last a few
microseconds. Where several threads have work, each such call may cost the wake-up of another thread and the wait until
that blocks in turn, which together take longer than the work. So a thread that has a job keeps its turn until it waits
for something that takes long: for the device, for Redis, for another product.

It is a courtesy. Who waits too long goes on without a turn, so nothing depends on who has it.
"""

from __future__ import annotations

from threading import Lock, local
from types import TracebackType
from typing import Self

LONGEST_S = 0.01  # that a thread waits for its turn


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
    """For a thread, as long as the context lasts: it has its turn, but for where it is `LongWait`."""

    def __enter__(self) -> Self:
        _of_thread.takes_turns = True
        _begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _of_thread.takes_turns = False
        _end()


class LongWait:
    """What lasts long enough for another thread's turn. For any thread; to those that take no turns it is nothing."""

    def __enter__(self) -> Self:
        _end()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if _of_thread.takes_turns and not _of_thread.has_turn:
            _begin()
