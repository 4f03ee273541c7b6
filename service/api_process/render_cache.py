"""A cache of results, reports and plots. They are rendered one at a time, because drawing is slow and occupies a core;
the most recent ones are kept. PDFs, which take the longest by far, wait for each other alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from threading import Lock
from typing import Generic, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from analysis.results import Results
from service.api_process.round_robin import RoundRobin
from service.api_process.share import Share

T = TypeVar("T")
KEPT_RESULTS = 4  # over all API processes, like the rendered bodies
KEPT_BODIES, MIN_BODIES = 24, 4
LARGEST_BYTES = 8 << 20  # of a body that is kept


class Recent(Generic[T]):
    """The most recently used values, by key. Safe to share between threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = Lock()
        self._values: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def keep(self, key: Hashable, value: T) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._size:
                self._values.popitem(last=False)


class Renders:
    """The cache. Creating it needs a running event loop."""

    def __init__(self, share: Share) -> None:
        self._quick, self._long = ((RoundRobin(), CapacityLimiter(1)) for _ in range(2))
        self._bodies: Recent[bytes] = Recent(share.of(KEPT_BODIES, minimum=MIN_BODIES))
        self._results: Recent[Results] = Recent(share.of(KEPT_RESULTS))

    async def body(self, key: Hashable, make: Callable[[], bytes], *, owner: str, is_long: bool = False) -> bytes:
        """The result of `make` for this key, from the cache or computed in a separate worker thread, in the owner's
        turn. `is_long`: others need not wait for it. Raises what `make` raises.
        """
        known = self._bodies.get(key)
        if known is not None:
            return known
        turns, thread = self._long if is_long else self._quick
        async with turns.alone(owner):
            return await anyio.to_thread.run_sync(partial(self._make, key, make), limiter=thread)

    def _make(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        body = self._bodies.get(key)  # another request may have rendered it in the meantime
        if body is None:
            body = make()
            if len(body) <= LARGEST_BYTES:
                self._bodies.keep(key, body)
        return body

    def results(self, key: Hashable, collect: Callable[[], Results]) -> Results:
        """The result of `collect` for this key, from the cache if possible. For use inside `make`."""
        found = self._results.get(key)
        if found is None:
            found = collect()
            self._results.keep(key, found)
        return found
