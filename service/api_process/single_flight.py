"""Shares one answer among callers who ask the same question at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

R = TypeVar("R")


class SingleFlight(Generic[R]):
    """Questions with their pending answers: of each at most one that is under way, and one that begins after it."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Task[R]] = {}
        self._next: dict[Hashable, asyncio.Task[R]] = {}

    async def ask(self, question: Hashable, answer: Callable[[], Awaitable[R]]) -> R:
        """The result of an `answer` that begins from now on, once for all who ask until then: one under way may know
        nothing of what this caller asks about. Raises what `answer` raises.
        """
        task = self._next.get(question)
        if task is None:
            task = self._next[question] = asyncio.ensure_future(self._answered(question, answer))
        return await asyncio.shield(task)  # a cancelled caller must not cancel the answer for the others

    async def _answered(self, question: Hashable, answer: Callable[[], Awaitable[R]]) -> R:
        if (before := self._under_way.get(question)) is not None:
            await asyncio.wait({before})
        task = self._under_way[question] = self._next.pop(question)
        try:
            return await answer()
        finally:
            if self._under_way.get(question) is task:
                del self._under_way[question]
