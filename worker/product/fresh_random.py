"""Random generators for checks, whose vectors must be unpredictable."""

from __future__ import annotations

from threading import local
from typing import Any

import numpy as np

from worker.device.random_bits import fresh_bits


class _OfThread(local):
    """A generator of this thread, and a state of it into which new random bits are put."""

    def __init__(self) -> None:
        self.rng = np.random.Generator(np.random.PCG64())
        self.state: Any = self.rng.bit_generator.state


_of_thread = _OfThread()


def fresh_rng() -> np.random.Generator:
    """A random generator for one launch of this thread, until it asks for the next. Its whole state is of 128 bits that
    the operating system has drawn, and that were used for nothing before. Making a new generator takes five times as
    long.
    """
    own = _of_thread
    own.state["state"]["state"] = fresh_bits()
    own.rng.bit_generator.state = own.state
    return own.rng
