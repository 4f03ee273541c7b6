"""Shares one answer among callers who ask the same question at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

R = TypeVar("R")


class SingleFlight(Generic[R]):
    """Questions in progress, with their pending answers."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Task[R]] = {}

    async def ask(self, question: Hashable, answer: Callable[[], Awaitable[R]]) -> R:
        """The result of `answer`, which is called once for all concurrent callers. Raises what it raises."""
        task = self._under_way.get(question)
        if task is None:
            task = self._under_way[question] = asyncio.ensure_future(answer())
            task.add_done_callback(lambda _: self._under_way.pop(question))
        return await asyncio.shield(task)  # a cancelled caller must not cancel the answer for the others
