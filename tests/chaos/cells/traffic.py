"""Callers of cells, with a note of every answer that they get from nginx, and of every one that does not come."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from select import select
from typing import NamedTuple

from tests.chaos import products
from tests.chaos.callers import OCTETS, Accepted, Caller, Refused, Told
from tests.chaos.cells.stack import Seat
from tests.chaos.network.wire import Reply, Wire

PATIENT_S = 30.0  # that a caller of a living cell waits for an answer: its bound
HANGING_S = 2.0  # and that of one that hangs, so that some give up
PAUSE_S = 0.15  # between a caller's jobs, on average
READ_EVERY_S = 0.05


class Answer(NamedTuple):
    """`cell`: which was asked. `status`: 0 where no answer came; `said`: then what became of the connection, otherwise
    the type of a problem. `told`: the cell that the answer names. `waits`: whether it was asked to wait for a product.
    Times are monotonic, in seconds."""

    cell: str
    began: float
    ended: float
    status: int
    said: str = ""
    told: str = ""
    retry_after: str = ""
    waits: bool = False


@dataclass
class Answers:
    """For many threads. `hanging`: the cells that hang now."""

    noted: list[Answer] = field(default_factory=list)
    hanging: set[str] = field(default_factory=set)


class Watched(Wire):
    """A connection to nginx for requests to one cell."""

    def __init__(self, port: int, cell: str, answers: Answers) -> None:
        super().__init__(port)
        self._cell, self._answers = cell, answers
        self._has_begun = False

    def ask(self, sent: bytes, timeout_s: float = PATIENT_S) -> Reply:
        """With a time of its own, unless more is asked for."""
        began, waits = time.monotonic(), b"\r\nPrefer: wait" in sent
        if self._socket is not None and select([self._socket], [], [], 0.0)[0]:
            self.close()  # it was ended while it was idle, which any client would see
        self._has_begun = False
        try:
            reply = super().ask(sent, HANGING_S if self._cell in self._answers.hanging else max(timeout_s, PATIENT_S))
        except OSError as error:
            said = "cut short" if self._has_begun else "timed out" if isinstance(error, TimeoutError) else "closed"
            self._answers.noted.append(Answer(self._cell, began, time.monotonic(), 0, said, waits=waits))
            raise
        is_problem = reply.header("content-type").startswith("application/problem+json")
        said = reply.json()["type"].rpartition("/")[2] if is_problem else ""
        words = said, reply.header("x-matmul-cell"), reply.header("retry-after")
        self._answers.noted.append(Answer(self._cell, began, time.monotonic(), reply.status, *words, waits))
        return reply

    def _more(self, data: bytes) -> bytes:
        got = super()._more(data)
        self._has_begun = True
        return got


class CellCaller(Caller):
    """A caller whose every answer is noted."""

    def __init__(self, index: int, seat: Seat, door: int, told: Told, seed: int, answers: Answers) -> None:
        super().__init__(index, (door,), seat.key, told, seed, headers=seat.headers)
        self._wires = [Watched(door, seat.cell, answers)]

    def send_heavy(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._accept(number, "heavy", products.heavy(number))
        self.close()

    def read_back(self, ended: threading.Event) -> None:
        """Products of the cell's jobs, whoever sent them, until that event."""
        while not ended.wait(READ_EVERY_S):
            if (accepted := self._any_job()) is None:
                continue
            try:
                target = f"/v1/jobs/{accepted.job}/product"
                reply = self.answered("GET", target, OCTETS, until=(200, 409), key=accepted.key)
            except Refused as refusal:
                self._told.unexpected.append(f"{accepted.job}: {refusal}")
                continue
            if reply.status == 200 and reply.body != accepted.product:
                self._told.wrong.append(f"{accepted.number}: read back from {accepted.job}")
        self.close()

    def _any_job(self) -> Accepted | None:
        """Not one that its caller deletes or cancels."""
        known = list(self._told.accepted.values())
        chosen = self._rng.choice(known) if known else None
        if chosen is None or chosen.product is None or chosen.path in ("large", "cancelled", "redriven"):
            return None
        return chosen


class Numbers:
    """Gives out job numbers, with a pause before each, until it is ended: traffic never stops while a fault lasts."""

    def __init__(self, seed: int, pause_s: float) -> None:
        self._pause_s = pause_s
        self.given = 0
        self.ended = threading.Event()
        self._rng = random.Random(f"{seed} pauses")
        self._lock = threading.Lock()

    def number(self) -> int | None:
        with self._lock:
            pause_s = self._rng.expovariate(1 / self._pause_s)
        if self.ended.wait(pause_s):
            return None
        with self._lock:
            self.given += 1
            return self.given - 1

    def wait_for_more(self, count: int, deadline: float) -> bool:
        """Until so many more were given out; False past the deadline (monotonic)."""
        count += self.given
        while self.given < count and time.monotonic() < deadline:
            time.sleep(0.02)
        return time.monotonic() < deadline
