"""Runs blocking work in a worker thread and always waits for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from service.api_process.work_threads import WorkThreads

LOOK_S = 0.01  # how often a cancelled task checks whether its thread has finished
MAX_READERS = 40

R = TypeVar("R")

_readers = WorkThreads(MAX_READERS)  # of replies in pieces


async def in_thread(work: Callable[[], R], threads: WorkThreads = _readers) -> R:
    """The result of `work`. If the task is cancelled, for example by a shutdown, it ends only when the thread has
    finished, so that shared resources can be released safely. Work that has not started is not run.
    """
    begun = threads.start(work)
    try:
        return await begun.future
    except asyncio.CancelledError:
        if threads.drop(begun):
            raise
        while not begun.ended:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(LOOK_S)
        raise
    finally:
        del begun  # it keeps an error, whose traceback keeps it
