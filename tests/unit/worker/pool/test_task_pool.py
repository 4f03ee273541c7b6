"""What the parent of a worker keeps of messages that are done."""

from __future__ import annotations

from typing import Any

from kombu.asynchronous.timer import Timer

from jobs.memory_tuning import tidy_memory
from worker.pool.task_pool import AttentivePool, forget_cancelled


def test_time_limits_of_messages_that_are_done_are_forgotten() -> None:
    """Those of others stay, in their order."""
    timer: Any = Timer()  # type: ignore[no-untyped-call]
    called: list[int] = []
    entries = [timer.call_after(-number, called.append, (number,)) for number in range(100)]
    for number, entry in enumerate(entries):
        if number % 10:
            entry.cancel()
    assert len(timer) == 100
    forget_cancelled(timer)
    assert len(timer) == 10
    for _, entry in timer:
        if entry is None:
            break
        entry()
    assert called == [*range(90, -1, -10)]


def test_the_pool_does_so_now_and_then() -> None:
    pool = AttentivePool.__new__(AttentivePool)
    assert {pool.forget_time_limits, tidy_memory} <= pool.timers.keys()
