"""Waiting out a Redis that is away or full, where giving up at once would lose work that is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import structlog

from jobs.errors import StoreFull, StoreUnavailable

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0

Result = TypeVar("Result")
log = structlog.get_logger(__name__)


def retry_until(action: Callable[[], Result], *, timeout_s: float) -> Result:
    """Repeats `action` until Redis serves it. Raises its StoreUnavailable or StoreFull after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return action()
        except (StoreUnavailable, StoreFull) as error:
            if time.monotonic() + pause_s > deadline:
                raise
            log.warning("the job store does not serve; trying again", reason=error.type, pause_s=pause_s)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
