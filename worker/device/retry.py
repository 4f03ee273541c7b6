"""Retries while Redis is unavailable or full, if giving up at once would lose finished work."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import structlog

from jobs.errors import StoreFull, StoreUnavailable

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
LOOK_EVERY_S = 0.05

Result = TypeVar("Result")
log = structlog.get_logger(__name__)


def retry_until(
    action: Callable[[], Result],
    *,
    timeout_s: float,
    wanted: Callable[[], None] | None = None,
    longest_pause_s: float = LONGEST_PAUSE_S,
) -> Result:
    """Repeats `action` until Redis serves it. Raises its StoreUnavailable or StoreFull after `timeout_s`, and what
    `wanted` does, which is called meanwhile."""
    deadline = time.monotonic() + timeout_s
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return action()
        except (StoreUnavailable, StoreFull) as error:
            if time.monotonic() + pause_s > deadline:
                raise
            log.warning("the job store does not serve; trying again", reason=error.type, pause_s=pause_s)
        pause(pause_s, wanted)
        pause_s = min(2 * pause_s, longest_pause_s)


def pause(
    seconds: float, wanted: Callable[[], None] | None = None, *, until: Callable[[], bool] = lambda: False
) -> None:
    """Ends once `until` holds. Raises what `wanted` does. Both are called every LOOK_EVERY_S, if `wanted` is given."""
    if wanted is None:
        time.sleep(seconds)
        return
    deadline = time.monotonic() + seconds
    while (left_s := deadline - time.monotonic()) > 0:
        wanted()
        time.sleep(min(left_s, LOOK_EVERY_S))
        if until():
            return
