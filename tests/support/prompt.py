"""Promises in seconds, on a machine that may have much else to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

TRIES = 6
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
    """The same of what measures its time by itself."""
    taken: list[float] = []
    while not taken or taken[-1] >= seconds:
        assert len(taken) < TRIES, f"it took {min(taken):.2f} s at best, not {seconds:g}"
        taken.append(taken_s())
