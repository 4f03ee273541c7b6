"""The live workers as this process last read them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from threading import Lock

from jobs.errors import StoreUnavailable
from jobs.fleet.workers import WorkerInfo

MAX_AGE_S = 0.5
READ_EVERY_S = 0.3  # while they are kept fresh: so that none is too old by the time the next is there
KEPT_S = 10.0  # after they were asked for last


class LiveWorkers:
    """The live workers, read at most every half second; a failure to read them holds as long. For worker threads."""

    def __init__(self, read: Callable[[], Sequence[WorkerInfo]]) -> None:
        self._read = read
        self._lock = Lock()
        self._workers: Sequence[WorkerInfo] = ()
        self._error: StoreUnavailable | None = None
        self._read_at = self._asked_at = float("-inf")
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
        """The same from anywhere, where that needs no reading; else None."""
        self._asked_at = time.monotonic()
        is_fresh = self._error is None and time.monotonic() - self._read_at <= MAX_AGE_S
        return self._workers if is_fresh else None

    def keep_fresh(self, call: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        """From now on, until `fresh` was not asked for a while, they are read in time for it: who sends a product now
        and then would else wait for a thread and for Redis each time. `call` has a worker thread do something."""
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.ensure_future(self._keep(call))

    async def _keep(self, call: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        while time.monotonic() - self._asked_at < KEPT_S:
            await asyncio.sleep(READ_EVERY_S)
            await call(self._read_again)

    async def close(self) -> None:
        """When the service stops."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})

    def _read_again(self) -> None:
        with self._lock:
            self._refresh()

    def _refresh(self) -> None:
        try:
            self._workers, self._error = self._read(), None
        except StoreUnavailable as error:
            self._error = error
        self._read_at = time.monotonic()
