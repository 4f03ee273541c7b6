"""What a heartbeat counts, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from threading import Event, Thread
from typing import Any, cast

import pytest

from jobs.errors import StoreUnavailable
from jobs.fleet.workers import WorkerInfo
from jobs.settings import Settings
from worker.cpu.runner import CpuRunner
from worker.process import heartbeat as heartbeats
from worker.process.heartbeat import Heartbeat, Today
from worker.process.signs_of_life import SignsOfLife

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


class Register:
    """It notes the states that it was told, or is away."""

    def __init__(self) -> None:
        self.states: list[str] = []
        self.is_away = False

    def beat(self, info: WorkerInfo, ttl_s: float) -> bool:
        if self.is_away:
            raise StoreUnavailable
        self.states.append(info.state)
        return False

    mine = "here"

    def misplaced(self) -> None:
        pass


@dataclass
class Beating:
    """A worker that beats when the test says so. Five beats last as long as a silent worker counts as live."""

    register: Register
    parent: SignsOfLife
    heartbeat: Heartbeat

    def beat(self, count: int) -> list[str]:
        """What the register was told meanwhile."""
        before = len(self.register.states)
        for _ in range(count):
            self.heartbeat._beat_and_look()
        return self.register.states[before:]


@pytest.fixture
def beating(monkeypatch: pytest.MonkeyPatch) -> Beating:
    register, parent, settings = Register(), SignsOfLife(), Settings(cpu_threads=1, worker_ttl_s=5.0)
    monkeypatch.setattr(heartbeats, "parent_signs", parent)
    return Beating(register, parent, Heartbeat(cast(Any, register), cast(Any, register), CpuRunner(settings), settings))


def test_a_worker_whose_parent_gives_no_sign_is_unavailable_until_it_gives_one(beating: Beating) -> None:
    assert beating.beat(20) == ["ready"] * 20, "it gave none yet"
    beating.parent.give()
    assert beating.beat(20) == ["ready"] * 7 + ["unavailable"] * 13
    beating.parent.give()
    assert beating.beat(7) == ["unavailable"] + ["ready"] * 6


def test_a_parent_that_waits_for_redis_is_not_blamed(beating: Beating) -> None:
    beating.parent.give()
    beating.register.is_away = True
    beating.beat(20)
    beating.register.is_away = False
    assert beating.beat(7) == ["ready"] * 7


def test_a_worker_that_stops_is_not_blamed(beating: Beating, monkeypatch: pytest.MonkeyPatch) -> None:
    beating.parent.give()
    monkeypatch.setattr(heartbeats, "is_stopping", lambda: True)
    assert beating.beat(20) == ["ready"] * 20
