"""Feeds a body to its reader. A small body is passed whole, in the same worker-thread call that then uses it; a large
one is passed in batches, each of which is written while the next is received.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import anyio.to_thread

from service.api_process.body_bytes import BodyBytes
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
                context.bodies.keep(size, body.owner)
                kept_bytes += size
            if body.ended:
                async with context.bodies.parsing(kept_bytes):
                    return await context.call(_finish, reader, batch, uploads, conclude)
            at_once = None
            if not reader.keeps:
                end = partial(_end, reader, uploads, conclude)
                batch, ended = await _by_threads(context, body, reader, batch, end)
                for concluded in ended:
                    return concluded
            writing = asyncio.create_task(context.call(_feed, reader, batch)) if batch else None
    except BaseException:
        if writing is not None:
            with suppress(Exception, asyncio.CancelledError):
                await writing  # it uses the reader, so wait for it; it may have been cancelled with this task
            writing = None  # it keeps an error, whose traceback keeps it
        if uploads.is_open:
            await anyio.to_thread.run_sync(uploads.abort)
        raise
    finally:
        context.bodies.let_go(kept_bytes, body.owner)
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
        del coming, writing  # they keep an error, whose traceback keeps them


async def _by_threads(
    context: Context, body: Body, reader: Reader[T], batch: Batch, end: Callable[[], R]
) -> tuple[Batch, tuple[R, ...]]:
    """Feeds the batch, and what comes next, in threads that read it as long as it comes fast. Returns the batch if it
    is still to be fed, and what `end` returned once the body is whole."""
    ended: tuple[R, ...] = ()
    is_fast = True
    while is_fast and not ended:
        with body.by_thread() as coming:
            if coming is None:
                break
            ended = await context.call(_feed_from, reader, batch, coming, end)
            batch, is_fast = [], coming.is_fast
    return batch, ended


def _feed_from(reader: Reader[T], batch: Batch, coming: BodyBytes, end: Callable[[], R]) -> tuple[R, ...]:
    _feed(reader, batch)
    coming.pass_to(reader.feed)
    return (end(),) if coming.is_whole else ()


def _feed(reader: Reader[T], batch: Batch) -> None:
    for piece in batch:
        reader.feed(piece)


def _finish(reader: Reader[T], batch: Batch, uploads: UploadSet, conclude: Callable[[T], R]) -> R:
    _feed(reader, batch)
    return _end(reader, uploads, conclude)


def _end(reader: Reader[T], uploads: UploadSet, conclude: Callable[[T], R]) -> R:
    return _conclude(reader.finish(), uploads, conclude)


def _conclude(read: T, uploads: UploadSet, conclude: Callable[[T], R]) -> R:
    concluded = conclude(read)
    uploads.abort()  # uploads that were not needed: an Idempotency-Key may have led to an earlier result
    return concluded
