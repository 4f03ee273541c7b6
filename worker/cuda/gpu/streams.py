"""Non-blocking streams: one for each thread of a worker, and one for each piece of work between jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

import cupy

from worker.cuda.memory import Staging


class OfThread(local):
    """What each thread has of its own."""

    def __init__(self) -> None:
        self.stream = cupy.cuda.Stream(non_blocking=True)  # waits for no other
        self.staging = Staging()


@contextmanager
def stream_of_its_own() -> Iterator[None]:
    """A non-blocking stream for this context. At the end, memory used on it is released to others."""
    stream = cupy.cuda.Stream(non_blocking=True)
    try:
        with stream:
            yield
        stream.synchronize()
    finally:
        cupy.get_default_memory_pool().free_all_blocks(stream)
