"""Turns at the interpreter: who has one goes on alone until it waits for long, and no one waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from worker.device import host_turns
from worker.device.host_turns import LongWait, TakingTurns

TIMEOUT_S = 60.0


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(host_turns, "LONGEST_S", TIMEOUT_S)
    yield
    assert not host_turns._turn.locked(), "each turn has come to its end"


def in_thread(work: Callable[[], object]) -> threading.Event:
    """Set once it has its turn, or has gone on without one."""
    begun = threading.Event()

    def run() -> None:
        with TakingTurns():
            begun.set()
            work()

    threading.Thread(target=run, daemon=True).start()
    return begun


def test_another_thread_begins_when_this_one_waits_for_long() -> None:
    with TakingTurns():
        begun = in_thread(lambda: None)
        assert not begun.wait(0.05)
        with LongWait():
            assert begun.wait(TIMEOUT_S)


def test_after_its_wait_a_thread_waits_for_its_turn() -> None:
    order: list[str] = []
    other_waits = threading.Event()

    def work() -> None:
        order.append("other")
        with LongWait():
            other_waits.wait(TIMEOUT_S)

    with TakingTurns():
        begun = in_thread(work)
        with LongWait():
            assert begun.wait(TIMEOUT_S)
        order.append("this one")
        other_waits.set()
    assert order == ["other", "this one"]
    with TakingTurns():  # once the other one has ended
        pass


def test_waiting_for_a_turn_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_turns, "LONGEST_S", 0.001)
    with TakingTurns():
        ended = threading.Event()
        in_thread(ended.set)
        assert ended.wait(TIMEOUT_S), "it went on without a turn, while this thread kept its own"


def test_waits_of_threads_without_turns_are_nothing() -> None:
    with LongWait():
        assert not host_turns._turn.locked()
    with TakingTurns():
        waited = threading.Event()

        def wait() -> None:
            with LongWait():
                waited.set()

        threading.Thread(target=wait, daemon=True).start()
        assert waited.wait(TIMEOUT_S)
        assert host_turns._turn.locked(), "another thread's wait ends no turn of this one's"


def test_an_error_ends_the_turn() -> None:
    with pytest.raises(RuntimeError), TakingTurns():
        raise RuntimeError
    with pytest.raises(RuntimeError), TakingTurns(), LongWait():
        raise RuntimeError
