"""What a heartbeat counts."""

from __future__ import annotations

from datetime import date

from worker.process.heartbeat import Today

FIRST, SECOND = date(2026, 11, 21), date(2026, 11, 22)


def test_the_count_of_the_day_begins_anew_at_midnight() -> None:
    today = Today(FIRST)
    assert [today.part_of(count, FIRST) for count in (0, 3, 5)] == [0, 3, 5]
    assert [today.part_of(count, SECOND) for count in (5, 5, 9)] == [0, 0, 4]
