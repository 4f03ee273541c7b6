"""Runs one thread for each GPU; the threads wait for each other, and this one watches their progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from queue import Empty, Queue
from threading import BrokenBarrierError, Thread

from jobs.errors import DeviceFault

LOOK_EVERY_S = 0.05


def nothing_done() -> int:
    return 0


def run_together(
    calls: Sequence[Callable[[], None]],
    check_cancelled: Callable[[], None],
    limit_s: float,
    done: Callable[[], int] = nothing_done,
) -> None:
    """Returns when all calls have returned.

    A library's call cannot be cancelled. So what `check_cancelled` or a call raises is raised once all calls have
    ended. A DeviceFault is raised at once, because the other calls may then wait forever; so is one after `limit_s` in
    which `done`, how much is done so far, has not changed. A call that waits for another that failed is expected to
    raise BrokenBarrierError.
    """
    found: Queue[BaseException | None] = Queue()

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BrokenBarrierError:
            found.put(None)
        except BaseException as error:
            found.put(error)
        else:
            found.put(None)

    for call in calls:
        Thread(target=run, args=(call,), daemon=True).start()
    _wait(found, len(calls), check_cancelled, limit_s, done)


def _wait(
    found: Queue[BaseException | None],
    left: int,
    check_cancelled: Callable[[], None],
    limit_s: float,
    done: Callable[[], int],
) -> None:
    failure: BaseException | None = None
    began, seen = time.monotonic(), done()
    while left:
        try:
            ended = found.get(timeout=LOOK_EVERY_S)
        except Empty:
            if (now := done()) != seen:
                began, seen = time.monotonic(), now
            elif time.monotonic() - began > limit_s:
                message = f"A library's product was not there after {limit_s:.0f} s; its worker starts again."
                raise DeviceFault(message) from None
            failure = failure or _cancellation(check_cancelled)
            continue
        left -= 1
        if isinstance(ended, DeviceFault):
            raise ended
        failure = failure or ended
    if failure is not None:
        raise failure


def _cancellation(check_cancelled: Callable[[], None]) -> BaseException | None:
    try:
        check_cancelled()
    except BaseException as error:
        return error
    return None
