"""What a heartbeat counts, and how it ends."""

from __future__ import annotations

from datetime import date
from threading import Event, Thread
from typing import Any, cast

from jobs.fleet.workers import WorkerInfo
from jobs.settings import Settings
from worker.cpu.runner import CpuRunner
from worker.process.heartbeat import Heartbeat, Today

FIRST, SECOND = date(2026, 11, 21), date(2026, 11, 22)
DEADLINE_S = 60.0


def test_the_count_of_the_day_begins_anew_at_midnight() -> None:
    today = Today(FIRST)
    assert [today.part_of(count, FIRST) for count in (0, 3, 5)] == [0, 3, 5]
    assert [today.part_of(count, SECOND) for count in (5, 5, 9)] == [0, 0, 4]


class SlowRegister:
    """It remembers what it was told; a beat after the first takes until it may `go_on`."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.begun, self.go_on = Event(), Event()

    def beat(self, info: WorkerInfo, ttl_s: float) -> bool:
        if self.told:
            self.begun.set()
            assert self.go_on.wait(DEADLINE_S)
        self.told.append("it is here")
        return False

    def gone(self, worker_id: str) -> None:
        self.told.append("it is gone")

    mine = "here"

    def misplaced(self) -> None:
        """The store is where it was."""


def test_a_beat_under_way_does_not_put_back_a_worker_that_ended() -> None:
    register = SlowRegister()
    settings = Settings(cpu_threads=1, heartbeat_s=0.1, worker_ttl_s=0.25)
    heartbeat = Heartbeat(cast(Any, register), cast(Any, register), CpuRunner(settings), settings)
    heartbeat.start()
    assert register.begun.wait(DEADLINE_S)
    ending = Thread(target=heartbeat.stop)
    ending.start()
    ending.join(0.1)
    assert register.told == ["it is here"]
    register.go_on.set()
    ending.join(DEADLINE_S)
    assert register.told[-1] == "it is gone"
