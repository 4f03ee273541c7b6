"""Feeds a body to its reader: a small one whole, in the same trip to a worker thread that then makes something of it; a
large one in batches, one of which is written while the next comes in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import TypeVar

import anyio.to_thread

from service.bodies.body import Batch, Body
from service.bodies.reader import Reader
from service.bodies.uploads import UploadSet
from service.context import Context

T = TypeVar("T")
R = TypeVar("R")


async def receive(context: Context, body: Body, reader: Reader[T], uploads: UploadSet, conclude: Callable[[T], R]) -> R:
    """What `conclude`, in a worker thread, makes of what was read. Where anything fails, nothing stays stored.

    Raises TooManyBodies, and what the reader and `conclude` raise.
    """
    writing: asyncio.Task[None] | None = None
    batches = body.batches()
    kept_bytes = 0
    try:
        while True:
            batch = await _next_batch(batches, writing)
            if reader.keeps:
                size = sum(map(len, batch))
                context.bodies.keep(size)
                kept_bytes += size
            if body.ended:
                async with context.bodies.parsing(kept_bytes):
                    return await context.call(_finish, reader, batch, uploads, conclude)
            writing = asyncio.create_task(context.call(_feed, reader, batch))
    except BaseException:
        if writing is not None:
            with suppress(Exception):
                await writing  # it is the reader's only user, so wait for it
        if uploads.is_open:
            await anyio.to_thread.run_sync(uploads.abort)
        raise
    finally:
        context.bodies.let_go(kept_bytes)
        reader.close()


async def _next_batch(batches: AsyncGenerator[Batch], writing: asyncio.Task[None] | None) -> Batch:
    """What came while the batch before was written. Raises at once where that failed."""
    if writing is None:
        return await anext(batches)
    coming = asyncio.ensure_future(anext(batches))
    try:
        await writing
        return await coming
    finally:
        coming.cancel()


def _feed(reader: Reader[T], batch: Batch) -> None:
    for piece in batch:
        reader.feed(piece)


def _finish(reader: Reader[T], batch: Batch, uploads: UploadSet, conclude: Callable[[T], R]) -> R:
    _feed(reader, batch)
    concluded = conclude(reader.finish())
    uploads.abort()  # what was not needed: an Idempotency-Key may have led to an earlier result
    return concluded
