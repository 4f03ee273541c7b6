"""Which tasks of a trace belong to which update."""

from __future__ import annotations

from typing import Any

from tools.harness.main_thread import MARK, TASK, Tasks, tasks_of


def event(name: str, ts: int, tdur: int = 0, tid: int = 1) -> dict[str, Any]:
    return {"name": name, "ts": ts, "tdur": tdur, "pid": 7, "tid": tid}


def test_tasks_are_counted_between_the_marks_of_their_thread() -> None:
    events = [
        event(TASK, 5, 90_000),  # before the first update
        event(MARK, 10),
        event(TASK, 20, 3_000),
        event("Paint", 21, 50_000),  # a part of a task
        event(TASK, 30, 80_000, tid=2),
        event(MARK, 200),
        event(TASK, 200, 1_000),
        event(TASK, 210, 4_000),
        event(MARK, 300),
        event(MARK, 100),
        event(TASK, 110, 7_000),
    ]
    assert list(tasks_of(events)) == [Tasks(3.0, 3.0), Tasks(7.0, 7.0), Tasks(4.0, 5.0)]
