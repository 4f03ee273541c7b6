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
    check_cancelled: Callable[[], None] | None = None,
    longest_pause_s: float = LONGEST_PAUSE_S,
) -> Result:
    """Repeats `action` until Redis serves it. Calls `check_cancelled` between the attempts and raises what that raises;
    after `timeout_s` raises the StoreUnavailable or StoreFull of the last attempt."""
    deadline = time.monotonic() + timeout_s
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return action()
        except (StoreUnavailable, StoreFull) as error:
            if time.monotonic() + pause_s > deadline:
                raise
            log.warning("the job store does not serve; trying again", reason=error.type, pause_s=pause_s)
        pause(pause_s, check_cancelled)
        pause_s = min(2 * pause_s, longest_pause_s)


def pause(
    seconds: float, check_cancelled: Callable[[], None] | None = None, *, until: Callable[[], bool] = lambda: False
) -> None:
    """Sleeps until `until` holds, at most for `seconds`. Raises what `check_cancelled` does. Both are called every
    LOOK_EVERY_S, if `check_cancelled` is given."""
    if check_cancelled is None:
        time.sleep(seconds)
        return
    deadline = time.monotonic() + seconds
    while (left_s := deadline - time.monotonic()) > 0:
        check_cancelled()
        time.sleep(min(left_s, LOOK_EVERY_S))
        if until():
            return
