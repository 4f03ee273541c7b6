"""What an answer of 202 waits for: that Redis can keep what it said (docs/decisions/0029-what-a-202-means.md)."""

from __future__ import annotations

import asyncio

from jobs.redis.line import ScriptLine


class Confirmations:
    """For one event loop. Those who ask while an answer is awaited share the next one: whatever was recorded before
    they asked was recorded before that is sent."""

    def __init__(self, line: ScriptLine) -> None:
        self._line = line
        self._asked: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def written(self) -> None:
        """Returns once all that Redis answered before this call is in its append-only file. Raises StoreUnavailable."""
        if self._next is None:
            self._next = asyncio.create_task(self._ask(self._asked))
        await asyncio.shield(self._next)

    async def _ask(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        self._asked, self._next = self._next, None  # who asks from now on may have recorded something since
        await self._line.run("written")
