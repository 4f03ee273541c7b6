"""Whether the worker is to stop. Its parent tells the children that it forks: none takes another message, and one that
is not ready yet ends at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import mmap
from threading import Event, Lock, Thread

import structlog

LOOK_EVERY_S = 0.1

log = structlog.get_logger(__name__)

_stopping = mmap(-1, 1)  # shared by the parent and the children that it forks


def worker_stops() -> None:
    """Called by the parent."""
    _stopping[0] = 1


def is_stopping() -> bool:
    return bool(_stopping[0])


@contextmanager
def ends_if_worker_stops(end: Callable[[int], None] = os._exit) -> Iterator[None]:
    """For the start of a child, which may wait half a minute for Redis, and compile kernels for longer. It has no jobs
    that could be lost. `end` ends the process; tests pass their own."""
    has_started, lock = Event(), Lock()

    def watch() -> None:
        while not has_started.wait(LOOK_EVERY_S):
            with lock:  # else it might have taken a job between the two questions
                if is_stopping() and not has_started.is_set():
                    log.info("this process ends before it is ready: its worker stops")
                    end(os.EX_OK)
                    return

    Thread(target=watch, name="worker stops", daemon=True).start()
    try:
        yield
    finally:
        with lock:
            has_started.set()
