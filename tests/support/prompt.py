"""Promises in seconds, on a machine that may have much else to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

TRIES = 6
PROBE_S = 0.02  # a few turns of the scheduler
Answer = TypeVar("Answer")


def within(seconds: float, ask: Callable[[], Answer]) -> Answer:
    """What `ask` returns, the first time that it takes no longer. A busy machine delays some of its tries; what is too
    slow by itself fails every one."""
    answers: list[Answer] = []

    def taken_s() -> float:
        began = time.monotonic()
        answers.append(ask())
        return time.monotonic() - began

    soon(seconds, taken_s)
    return answers[-1]


def soon(seconds: float, taken_s: Callable[[], float]) -> None:
    """The same of what measures its time by itself. Where threads wait for processors, it may take as much longer."""
    taken: list[float] = []
    before = times_slower()
    while True:
        taken.append(taken_s())
        after = times_slower()
        if taken[-1] < seconds * max(before, after):
            return
        assert len(taken) < TRIES, f"it took {min(taken):.2f} s at best, not {seconds:g}"
        before = after


def times_slower() -> float:
    """How many times as long as its processor time this thread takes for a little work now; 1 on an idle machine."""
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() < used + PROBE_S:
        pass
    return max(1.0, (time.monotonic() - began) / PROBE_S)
