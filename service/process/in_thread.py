"""Blocking work in a worker thread, waited for to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TypeVar

import anyio
import anyio.to_thread

LOOK_S = 0.01  # how often a task that is called off looks whether its thread is through

R = TypeVar("R")


async def in_thread(work: Callable[[], R], limiter: anyio.CapacityLimiter | None = None) -> R:
    """What `work` gives. A task that is called off meanwhile, as when a shutdown does not wait longer, ends when the
    thread is through with it: what the two share can be given back then. Work that no thread has begun is not done."""
    turn = Lock()
    begun = ended = given_up = False

    def run() -> R:
        nonlocal begun, ended
        with turn:
            if given_up:
                raise asyncio.CancelledError  # to no one
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
