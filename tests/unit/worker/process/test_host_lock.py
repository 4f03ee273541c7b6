"""The host lock: who has it goes on alone until a long wait, and no one waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from worker.device import host_lock
from worker.device.host_lock import HostLock, LongWait

TIMEOUT_S = 60.0


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(host_lock, "LONGEST_S", TIMEOUT_S)
    yield
    assert not host_lock._lock.locked(), "every holder has released it"


def in_thread(work: Callable[[], object]) -> threading.Event:
    """Set once it has the lock, or has gone on without it."""
    begun = threading.Event()

    def run() -> None:
        with HostLock():
            begun.set()
            work()

    threading.Thread(target=run, daemon=True).start()
    return begun


def test_another_thread_begins_when_this_one_waits_for_long() -> None:
    with HostLock():
        begun = in_thread(lambda: None)
        assert not begun.wait(0.05)
        with LongWait():
            assert begun.wait(TIMEOUT_S)


def test_after_its_wait_a_thread_waits_for_the_lock() -> None:
    order: list[str] = []
    other_waits = threading.Event()

    def work() -> None:
        order.append("other")
        with LongWait():
            other_waits.wait(TIMEOUT_S)

    with HostLock():
        begun = in_thread(work)
        with LongWait():
            assert begun.wait(TIMEOUT_S)
        order.append("this one")
        other_waits.set()
    assert order == ["other", "this one"]
    with HostLock():  # once the other one has ended
        pass


def test_waiting_for_the_lock_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_lock, "LONGEST_S", 0.001)
    with HostLock():
        ended = threading.Event()
        in_thread(ended.set)
        assert ended.wait(TIMEOUT_S), "it went on without the lock, which this thread kept"


def test_waits_of_threads_that_do_not_take_the_lock_are_nothing() -> None:
    with LongWait():
        assert not host_lock._lock.locked()
    with HostLock():
        waited = threading.Event()

        def wait() -> None:
            with LongWait():
                waited.set()

        threading.Thread(target=wait, daemon=True).start()
        assert waited.wait(TIMEOUT_S)
        assert host_lock._lock.locked(), "another thread's wait does not release this one's lock"


def test_an_error_releases_the_lock() -> None:
    with pytest.raises(RuntimeError), HostLock():
        raise RuntimeError
    with pytest.raises(RuntimeError), HostLock(), LongWait():
        raise RuntimeError
