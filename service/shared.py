"""One answer for all who ask the same at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

R = TypeVar("R")


class Shared(Generic[R]):
    """Questions under way, with their answers to come."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Task[R]] = {}

    async def ask(self, question: Hashable, answer: Callable[[], Awaitable[R]]) -> R:
        """What `answer` gives, called once for all who ask meanwhile. Raises what it raises."""
        task = self._under_way.get(question)
        if task is None:
            task = self._under_way[question] = asyncio.ensure_future(answer())
            task.add_done_callback(lambda _: self._under_way.pop(question))
        return await asyncio.shield(task)  # one asker who leaves does not take the answer from the others
