"""The live workers as this process last read them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from threading import Lock

from jobs.errors import StoreUnavailable
from jobs.fleet.workers import WorkerInfo

MAX_AGE_S = 0.5
READ_EVERY_S = 0.25  # interval while they are kept fresh: a reading takes some time to arrive at a busy process
KEPT_S = 10.0  # how long they are kept fresh after the last request


class LiveWorkers:
    """The live workers, read at most every half second; a failed reading is cached as long. For worker threads."""

    def __init__(self, read: Callable[[], Sequence[WorkerInfo]]) -> None:
        self._read = read
        self._lock = Lock()
        self._workers: Sequence[WorkerInfo] = ()
        self._error: StoreUnavailable | None = None
        self._read_at = self._asked_at = float("-inf")
        self._kept: tuple[Sequence[WorkerInfo], float] | None = None  # with the time of reading
        self._keeping: asyncio.Future[None] | None = None

    def now(self) -> Sequence[WorkerInfo]:
        """Raises StoreUnavailable."""
        with self._lock:
            if time.monotonic() - self._read_at > MAX_AGE_S:
                self._refresh()
            if self._error is not None:
                raise StoreUnavailable(self._error.detail) from self._error
            return self._workers

    def fresh(self) -> Sequence[WorkerInfo] | None:
        """The cached workers, for the event loop; None if they must be read first. Before a request is refused because
        of them, call `now`, since another worker may have started.
        """
        self._asked_at = time.monotonic()
        if self._kept is None or self._asked_at - self._kept[1] > MAX_AGE_S:
            return None
        return self._kept[0]

    def keep_fresh(self, call: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        """Refreshes the workers in the background until `fresh` has not been called for a while. Otherwise a caller who
        sends an occasional product would wait for a thread and for Redis each time. `call` runs work in a worker
        thread.
        """
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.ensure_future(self._keep(call))

    async def _keep(self, call: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        while time.monotonic() - self._asked_at < KEPT_S:
            await asyncio.sleep(READ_EVERY_S)
            await call(self._read_for_fresh)

    async def close(self) -> None:
        """Stops refreshing, when the service stops."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})

    def _read_for_fresh(self) -> None:
        with self._lock:
            try:
                self._kept = self._read(), time.monotonic()
            except StoreUnavailable:
                self._kept = None

    def _refresh(self) -> None:
        self._read_at = time.monotonic()
        try:
            self._workers, self._error = self._read(), None
            self._kept = self._workers, self._read_at
        except StoreUnavailable as error:
            self._error, self._kept = error, None
