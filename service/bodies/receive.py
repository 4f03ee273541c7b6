"""Feeds a body to its reader. A small body is passed whole, in the same worker-thread call that then uses it; a large
one is passed in batches, each of which is written while the next is received.
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

AT_ONCE_BYTES = 64 << 10  # parsed faster than a thread can be started

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
    """The result of `conclude`, called in a worker thread with the parsed body. If anything fails, nothing stays
    stored. If `at_once` is given, it is tried first for a body of a few KiB, without a thread; if it returns None,
    `conclude` is called. Raises TooManyBodies, and what the reader, `conclude` and `at_once` raise.
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
                await writing  # it uses the reader, so wait for it; it may have been cancelled with this task
        if uploads.is_open:
            await anyio.to_thread.run_sync(uploads.abort)
        raise
    finally:
        context.bodies.let_go(kept_bytes)
        reader.close()


async def _next_batch(batches: AsyncGenerator[Batch], writing: asyncio.Task[None] | None) -> Batch:
    """The batch received while the previous one was written. Raises at once if that failed."""
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
    uploads.abort()  # uploads that were not needed: an Idempotency-Key may have led to an earlier result
    return concluded
