"""Work that is done one at a time: keys take turns, so that one key's many requests delay those of others by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class RoundRobin:
    """Of each owner one waits at a time, first come, first served. For the event loop's thread."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._of_owner: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # while any of its work is here

    @asynccontextmanager
    async def alone(self, owner: str) -> AsyncIterator[None]:
        own = self._of_owner.setdefault(owner, asyncio.Lock())
        async with own, self._one:
            yield
