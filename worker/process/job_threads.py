"""Threads for jobs, so that several overlap: while one uses the device's cores, another's operands are copied to it and
a third one's product is copied back.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from threading import Condition, Lock, RLock

import structlog

from worker.device.cancellable_lock import LOOK_EVERY_S, CancellableLock
from worker.device.host_lock import LongWait

log = structlog.get_logger(__name__)


class JobThreads:
    """Runs at most `count` jobs at once. For one thread."""

    def __init__(self, count: int) -> None:
        self._free = self._count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="job")
        self._lock = RLock()  # entered by itself: a Condition calls Python for it
        self._changed = Condition(self._lock)

    @property
    def free(self) -> int:
        """How many jobs could be started now."""
        with self._lock:
            return self._free

    def start(self, run: Callable[[], None]) -> None:
        """Runs the job in a thread, once one is free; its log lines name the same jobs as those of the caller. If the
        system refuses a new thread and no other has begun the job, it runs in this one."""
        with self._lock:
            self._changed.wait_for(lambda: self._free > 0)
            self._free -= 1
        begun = Lock()
        context = copy_context()

        def once() -> None:
            if begun.acquire(blocking=False):
                context.run(self._run, run)

        try:
            self._pool.submit(once)
        except RuntimeError as refused:  # it is in the pool's queue all the same, for a thread that comes free
            log.warning("the system gives no further thread; a job runs in this one", reason=str(refused))
            once()

    def wait_for_one(self) -> None:
        """Waits until a thread is free."""
        with self._lock:
            self._changed.wait_for(lambda: self._free > 0)

    def wait_for_all(self) -> None:
        """Waits until no job is running."""
        with self._lock:
            self._changed.wait_for(lambda: self._free == self._count)

    def _run(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception:
            log.exception("a job broke off; the sweeper will see to it")
        finally:
            with self._lock:
                self._free += 1
                self._changed.notify_all()


class Room:
    """Limits the bytes of matrices of running jobs to `max_bytes`; a job that has more runs alone. Safe to share
    between threads, which are served in order."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._line = CancellableLock()
        self._lock = RLock()  # entered by itself: a Condition calls Python for it
        self._changed = Condition(self._lock)
        self._taken: list[int] = []

    def taken(self, size: int, check_cancelled: Callable[[], None]) -> AbstractContextManager[None]:
        """Waits for `size` bytes, which the job holds as long as the context lasts. Calls `check_cancelled` meanwhile,
        and raises what that raises."""
        return _Taken(self, size, check_cancelled)

    def take(self, size: int, check_cancelled: Callable[[], None]) -> None:
        """Like `taken`, until `give_back` is called."""
        with self._line.request(check_cancelled) as place:
            place.acquire()
            with self._lock:
                while not self._waited_for(size):
                    check_cancelled()
                self._taken.append(size)

    def give_back(self, size: int) -> None:
        with self._lock:
            self._taken.remove(size)
            self._changed.notify_all()

    def _waited_for(self, size: int) -> bool:
        """Whether there is room, after a short wait."""
        if self._has(size):
            return True
        with LongWait():
            return self._changed.wait_for(lambda: self._has(size), timeout=LOOK_EVERY_S)

    def _has(self, size: int) -> bool:
        return not self._taken or sum(self._taken) + size <= self._max_bytes


class _Taken(AbstractContextManager[None]):
    """A generator's context would take longer than to look whether there is room."""

    def __init__(self, room: Room, size: int, check_cancelled: Callable[[], None]) -> None:
        self._room, self._size, self._check_cancelled = room, size, check_cancelled

    def __enter__(self) -> None:
        self._room.take(self._size, self._check_cancelled)

    def __exit__(self, *_: object) -> None:
        self._room.give_back(self._size)
