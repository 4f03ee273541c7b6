"""When operands of jobs that have succeeded are removed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jobs.errors import JobNotFound, StoreUnavailable
from jobs.states import JobState
from worker.product.spent_operands import WAITING_BYTES, SpentOperands


class Played:
    """A ledger and a store that say what they were asked for."""

    FINDS_LEFTOVERS = True

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.dropped: list[str] = []
        self.refuses = False
        self.connections_opened = 1
        self.states: dict[str, JobState] = {}

    def check_written(self, *marks: Any, wait_s: float) -> None:
        assert wait_s == 0, "no product waits for the sync of a disk"
        self.asked.append([mark.job_id for mark in marks])
        if self.refuses:
            raise StoreUnavailable

    def get(self, job_id: str) -> Any:
        if job_id not in self.states:
            raise JobNotFound
        return SimpleNamespace(record=SimpleNamespace(state=self.states[job_id]))

    def drop(self, matrix_id: str, dtype: str, shape: tuple[int, ...]) -> None:
        self.dropped.append(matrix_id)


def ended(job_id: str, *matrices: str, size: int = 64) -> Any:
    """A job with operands of so many bytes each."""
    operands = [SimpleNamespace(source="inline", matrix=each, dtype="int8", shape=(size,)) for each in matrices]
    stored = SimpleNamespace(source="matrix", matrix="stored", dtype="int8", shape=(size,))
    return SimpleNamespace(job=SimpleNamespace(id=job_id, record=SimpleNamespace(operands=[*operands, stored])))


def spent_of(played: Any) -> SpentOperands:
    return SpentOperands(played, played)


def test_small_ones_share_a_question() -> None:
    played = Played()
    spent = spent_of(played)
    spent.ended([ended("one", "a", "b")])
    spent.ended([ended("two", "c", "c")])
    assert (played.dropped, played.asked) == ([], [])
    spent.clear_up()
    assert (played.dropped, played.asked) == (["a", "b", "c"], [["one", "two"]])
    spent.clear_up()
    assert played.asked == [["one", "two"]]


def test_none_waits_where_no_sweep_finds_it() -> None:
    played = Played()
    played.FINDS_LEFTOVERS = False
    spent_of(played).ended([ended("one", "a")])
    assert (played.dropped, played.asked) == (["a"], [["one"]])


def test_no_more_wait_than_a_few_mebibytes() -> None:
    played = Played()
    spent = spent_of(played)
    spent.ended([ended("one", "a", "b", size=WAITING_BYTES // 2)])
    assert not played.dropped
    spent.ended([ended("two", "c", size=1)])
    assert (played.dropped, played.asked) == (["a", "b", "c"], [["one", "two"]])


def test_what_is_not_known_to_be_written_stays_until_it_is() -> None:
    played = Played()
    spent = spent_of(played)
    played.refuses = True
    spent.ended([ended("one", "a")])
    spent.clear_up()
    assert (played.dropped, played.asked) == ([], [["one"]])
    played.refuses = False
    spent.clear_up()
    assert (played.dropped, played.asked) == (["a"], [["one"], ["one"]])


def test_what_a_redis_that_began_anew_does_not_know_as_succeeded_stays() -> None:
    played = Played()
    spent = spent_of(played)
    spent.ended([ended("kept", "a"), ended("lost", "b"), ended("cancelled", "c"), ended("gone", "d")])
    played.connections_opened += 1
    played.states = {"kept": JobState.SUCCEEDED, "lost": JobState.RUNNING, "cancelled": JobState.CANCELLED}
    spent.clear_up()
    assert played.dropped == ["a"]
