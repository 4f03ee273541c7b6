"""Whose turn it is on the device."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from worker.process.device_turns import DeviceTurns, DeviceWanted

SOON_S, DEADLINE_S = 0.05, 10.0


def test_nothing_is_lent_while_there_is_a_job() -> None:
    turns = DeviceTurns()
    with turns.job(), turns.job(), pytest.raises(DeviceWanted), turns.spare():
        pass
    with turns.spare():
        turns.check()


def test_a_job_is_seen_at_once_and_waits_until_the_device_is_given_back() -> None:
    turns, began, ended = DeviceTurns(), Event(), Event()

    def job() -> None:
        with turns.job():
            began.set()
            assert ended.wait(DEADLINE_S)

    thread = Thread(target=job)
    with turns.spare():
        thread.start()
        with pytest.raises(DeviceWanted):
            while True:
                turns.check()
        assert not began.is_set(), "the device is still lent"
    assert began.wait(DEADLINE_S)
    with pytest.raises(DeviceWanted):
        turns.check()
    ended.set()
    thread.join(DEADLINE_S)
    turns.check()


def test_it_is_quiet_once_the_last_job_is_some_time_ago() -> None:
    turns, quiet = DeviceTurns(), Event()

    def waiting() -> None:
        assert turns.wait_until_quiet(SOON_S)
        quiet.set()

    thread = Thread(target=waiting)
    with turns.job():
        thread.start()
        assert not quiet.wait(3 * SOON_S)
    assert quiet.wait(DEADLINE_S)
    thread.join(DEADLINE_S)


def test_a_process_that_ends_lends_nothing() -> None:
    turns = DeviceTurns()
    thread = Thread(target=turns.close)
    with turns.spare():
        thread.start()
        with pytest.raises(DeviceWanted):
            while True:
                turns.check()
        assert thread.is_alive(), "it waits until the device is given back"
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert not turns.wait_until_quiet(SOON_S)
