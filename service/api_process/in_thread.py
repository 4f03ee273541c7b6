"""Runs blocking work in a worker thread and always waits for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TypeVar

import anyio
import anyio.to_thread

LOOK_S = 0.01  # how often a cancelled task checks whether its thread has finished

R = TypeVar("R")


async def in_thread(work: Callable[[], R], limiter: anyio.CapacityLimiter | None = None) -> R:
    """The result of `work`. If the task is cancelled, for example by a shutdown, it ends only when the thread has
    finished, so that shared resources can be released safely. Work that has not started is not run.
    """
    turn = Lock()
    begun = ended = given_up = False

    def run() -> R:
        nonlocal begun, ended
        with turn:
            if given_up:
                raise asyncio.CancelledError  # nobody receives it
            begun = True
        try:
            return work()
        finally:
            ended = True

    try:
        return await anyio.to_thread.run_sync(run, limiter=limiter)
    except asyncio.CancelledError:
        with turn:
            given_up = True
        while begun and not ended:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(LOOK_S)
        raise
