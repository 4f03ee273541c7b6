"""Threads that wait for each other: how one that fails, or never ends, ends them all."""

from __future__ import annotations

import itertools
from threading import Barrier, Event

import pytest

from jobs.errors import DeviceFault, OutOfDeviceMemory, WrongState
from worker.cuda.from_host.gpu_threads import run_together
from worker.device.cancellable_lock import never_cancelled

LIMIT_S = 60.0


def test_all_are_done() -> None:
    done = [Event(), Event()]
    run_together([each.set for each in done], never_cancelled, LIMIT_S)
    assert all(each.is_set() for each in done)


def test_one_that_fails_before_the_others_begin_stops_them() -> None:
    barrier = Barrier(2)

    def fails() -> None:
        barrier.abort()
        raise OutOfDeviceMemory

    def waits() -> None:
        barrier.wait()

    with pytest.raises(OutOfDeviceMemory):
        run_together([waits, fails], never_cancelled, LIMIT_S)


def test_one_that_fails_in_the_middle_is_not_waited_for() -> None:
    """The other is inside a library, and stays there."""
    never = Event()

    def fails() -> None:
        raise DeviceFault("gone")

    def stuck() -> None:
        never.wait()

    with pytest.raises(DeviceFault, match="gone"):
        run_together([stuck, fails], never_cancelled, LIMIT_S)
    never.set()


def test_one_that_is_stuck_is_given_up() -> None:
    never = Event()
    with pytest.raises(DeviceFault, match="was not there after 0 s"):
        run_together([lambda: (never.wait(), None)[1]], never_cancelled, 0.0)
    never.set()


def test_one_that_gets_on_is_waited_for() -> None:
    """However long all of it takes."""
    done, enough = itertools.count(), Event()

    def looked() -> int:
        number = next(done)
        if number == 3:
            enough.set()
        return number

    run_together([lambda: (enough.wait(), None)[1]], never_cancelled, 0.0, looked)
    assert next(done) > 3


def test_a_job_that_is_called_off_ends_after_the_call() -> None:
    """Whoever waits is told once the library is done, and not before: its memory is in use until then."""
    asked, ended = Event(), Event()

    def check_cancelled() -> None:
        asked.set()
        raise WrongState

    def call() -> None:
        asked.wait()
        ended.set()

    with pytest.raises(WrongState):
        run_together([call], check_cancelled, LIMIT_S)
    assert ended.is_set()
