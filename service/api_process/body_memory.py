"""Limits the bytes of bodies in this process's memory, and how many of them are parsed at once."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jobs.models import ANONYMOUS
from service.problems import TooManyBodies

MUCH_BYTES = 128 << 20  # bytes waiting for their readers, above which each batch is passed on as soon as it arrives
KEPT_BYTES = 128 << 20  # of JSON, which is kept until it is complete
PARSED_BYTES = 8 << 20  # of JSON at once: a parsed body may take 25 times its length
FREE_BYTES = 64 << 10  # a body up to this length never waits


class BodyMemory:
    """The memory of all request bodies, of which one of JSON may have `max_body_bytes`. For the event loop's thread
    only.
    """

    def __init__(self, max_body_bytes: int = 0) -> None:
        self._max_body_bytes = max_body_bytes
        self.waiting_bytes = 0
        self._kept_bytes = 0
        self._kept_by: Counter[str] = Counter()  # owner
        self._parsed_bytes = 0
        self._turns: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def is_scarce(self) -> bool:
        return self.waiting_bytes > MUCH_BYTES

    def keep(self, size: int, owner: str = ANONYMOUS) -> None:
        """Reserves `size` bytes. Raises TooManyBodies if there is no room. One key alone has half of it, two have a
        third each, and so on: none may have more than it leaves to others, except for one body.
        """
        kept, left = self._kept_by[owner] + size, KEPT_BYTES - self._kept_bytes - size
        is_greedy = owner != ANONYMOUS and kept > max(left, self._max_body_bytes)
        if size > FREE_BYTES and (left < 0 or is_greedy):
            raise TooManyBodies
        self._kept_bytes += size
        self._kept_by[owner] = kept

    def let_go(self, size: int, owner: str = ANONYMOUS) -> None:
        if size:
            self._kept_bytes -= size
            self._kept_by -= Counter({owner: size})  # owners without any are dropped

    @asynccontextmanager
    async def parsing(self, size: int) -> AsyncIterator[None]:
        """Waits until a body of that length may be parsed, first come, first served."""
        if size <= FREE_BYTES:
            yield
            return
        await self._turn(size)
        try:
            yield
        finally:
            self._parsed_bytes -= size
            self._call_next()

    async def _turn(self, size: int) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._turns.append((size, turn))
        self._call_next()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._parsed_bytes -= size
            else:
                self._turns = deque(each for each in self._turns if each[1] is not turn)
            self._call_next()
            raise

    def _call_next(self) -> None:
        while self._turns:
            size, turn = self._turns[0]
            if self._parsed_bytes and self._parsed_bytes + size > PARSED_BYTES:
                return
            self._turns.popleft()
            if not turn.cancelled():
                self._parsed_bytes += size
                turn.set_result(None)
