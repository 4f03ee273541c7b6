"""The live workers as this process last read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock

from jobs.errors import StoreUnavailable
from jobs.fleet.workers import WorkerInfo

MAX_AGE_S = 0.5


class LiveWorkers:
    """The live workers, read at most every half second; a failure to read them holds as long. For worker threads."""

    def __init__(self, read: Callable[[], Sequence[WorkerInfo]]) -> None:
        self._read = read
        self._lock = Lock()
        self._workers: Sequence[WorkerInfo] = ()
        self._error: StoreUnavailable | None = None
        self._read_at = float("-inf")

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
        is_fresh = self._error is None and time.monotonic() - self._read_at <= MAX_AGE_S
        return self._workers if is_fresh else None

    def _refresh(self) -> None:
        try:
            self._workers, self._error = self._read(), None
        except StoreUnavailable as error:
            self._error = error
        self._read_at = time.monotonic()
