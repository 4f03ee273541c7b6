"""Threads for blocking work of an event loop. A general pool asks more of each call than its work often takes: here it
is one hand-over there and one back, and the thread that worked last, whose memory is at hand, works next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Generic, TypeVar

R = TypeVar("R")

IDLE_S = 10.0  # after which a thread without work ends


class Work(Generic[R]):
    """Something to be done in a thread, with the context variables of its caller. `future` is the caller's."""

    def __init__(self, call: Callable[[], R]) -> None:
        self._call: Callable[[], R] | None = call
        self._context = copy_context()
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[R] = self._loop.create_future()
        self._outcome: Callable[[], None] | None = None
        self.ended = False

    def do(self) -> None:
        """For the thread. Nothing of the call is kept afterwards but its outcome."""
        call, self._call = self._call, None
        assert call is not None, "it is done once"
        try:
            self._outcome = partial(self.future.set_result, self._context.run(call))
        except StopIteration as error:  # no future takes one
            self._outcome = partial(self.future.set_exception, _wrapped(error))
        except BaseException as error:
            self._outcome = partial(self.future.set_exception, error)
        del call
        self.ended = True

    def tell(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        """An error's traceback leads to this object. If this led back to it, only a search for garbage would free what
        the call had in its variables: so neither its outcome nor its future is kept.
        """
        outcome, self._outcome, was_cancelled = self._outcome, None, self.future.done()
        del self.future
        if outcome is not None and not was_cancelled:
            outcome()


def _wrapped(error: StopIteration) -> RuntimeError:
    wrapped = RuntimeError("work in a thread raised StopIteration")
    wrapped.__cause__ = error
    return wrapped


class WorkThreads:
    """At most `max_threads` threads, which are started as they are needed. More work waits its turn."""

    def __init__(self, max_threads: int) -> None:
        self._max_threads = max_threads
        self._count = 0
        self._idle: list[SimpleQueue[Work[object]]] = []  # of each thread, where it takes work from
        self._waiting: deque[Work[object]] = deque()
        self._lock = Lock()

    def start(self, call: Callable[[], R]) -> Work[R]:
        """Call it in an event loop. Raises RuntimeError as `_started`."""
        work = Work(call)
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
            if inbox is None and self._count == self._max_threads:
                self._waiting.append(work)  # type: ignore[arg-type]  # its outcome is the caller's
                return work
            self._count += inbox is None
        if inbox is None:
            inbox = self._started()
        inbox.put(work)  # type: ignore[arg-type]
        return work

    def _started(self) -> SimpleQueue[Work[object]]:
        """Where a new thread takes work from. Raises RuntimeError if the system has none."""
        inbox: SimpleQueue[Work[object]] = SimpleQueue()
        try:
            Thread(target=self._serve, args=(inbox,), name="work", daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._count -= 1
            raise
        return inbox

    def drop(self, work: Work[R]) -> bool:
        """Whether it had not begun; then it is not done."""
        with self._lock:
            try:
                self._waiting.remove(work)  # type: ignore[arg-type]
            except ValueError:
                return False
            return True

    def _serve(self, inbox: SimpleQueue[Work[object]]) -> None:
        work: Work[object] | None = inbox.get()
        while work is not None:
            work.do()
            following = self._following(inbox)  # before the outcome is told: then this thread may be the next one's
            work.tell()
            work = None  # so that nothing of it is kept meanwhile
            work = following or self._next(inbox)

    def _following(self, inbox: SimpleQueue[Work[object]]) -> Work[object] | None:
        """Work that waits; without any the thread is idle."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._idle.append(inbox)
            return None

    def _next(self, inbox: SimpleQueue[Work[object]]) -> Work[object] | None:
        with suppress(Empty):
            return inbox.get(timeout=IDLE_S)
        with self._lock:
            if inbox in self._idle:
                self._idle.remove(inbox)
                self._count -= 1
                return None
        return inbox.get()  # it came just now
