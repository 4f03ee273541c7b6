"""Feeds a body to its reader: a small one whole, in the same trip to a worker thread that then makes something of it; a
large one in batches, one of which is written while the next comes in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import anyio.to_thread

from service.bodies.body import Batch, Body
from service.bodies.reader import Reader
from service.bodies.uploads import UploadSet
from service.context import Context

AT_ONCE_BYTES = 64 << 10  # read in less time than a thread takes to start on it

T = TypeVar("T")
R = TypeVar("R")


async def receive(
    context: Context,
    body: Body,
    reader: Reader[T],
    uploads: UploadSet,
    conclude: Callable[[T], R],
    at_once: Callable[[T], Awaitable[R | None]] | None = None,
) -> R:
    """What `conclude`, in a worker thread, makes of what was read. Where anything fails, nothing stays stored.

    `at_once`, where given, is asked first about a body of a few KiB, without a thread; None is no answer.
    Raises TooManyBodies, and what the reader, `conclude` and `at_once` raise.
    """
    writing: asyncio.Task[None] | None = None
    batches = body.batches()
    kept_bytes = 0
    try:
        while True:
            batch = await _next_batch(batches, writing)
            if at_once is not None and writing is None and body.ended and sum(map(len, batch)) <= AT_ONCE_BYTES:
                _feed(reader, batch)
                read = reader.finish()
                concluded = await at_once(read)
                return concluded if concluded is not None else await context.call(_conclude, read, uploads, conclude)
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
            with suppress(Exception, asyncio.CancelledError):
                await writing  # it is the reader's only user, so wait for it; it may have been called off with this
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
    return _conclude(reader.finish(), uploads, conclude)


def _conclude(read: T, uploads: UploadSet, conclude: Callable[[T], R]) -> R:
    concluded = conclude(read)
    uploads.abort()  # what was not needed: an Idempotency-Key may have led to an earlier result
    return concluded
