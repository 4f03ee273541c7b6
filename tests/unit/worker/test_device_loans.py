"""To whom the device is lent, and when it is given back."""

from __future__ import annotations

from threading import Event, Thread

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from worker.process.device_loans import DeviceLoans, DeviceWanted

SOON_S, DEADLINE_S = 0.05, 60.0


def test_nothing_is_lent_while_there_is_a_job() -> None:
    loans = DeviceLoans()
    with loans.job(), loans.job(), pytest.raises(DeviceWanted), loans.spare():
        pass
    with loans.spare():
        loans.check()


def test_a_job_is_seen_at_once_and_waits_until_the_device_is_given_back() -> None:
    loans, began, ended = DeviceLoans(), Event(), Event()

    def job() -> None:
        with loans.job():
            began.set()
            assert ended.wait(DEADLINE_S)

    thread = Thread(target=job)
    with loans.spare():
        thread.start()
        with pytest.raises(DeviceWanted):
            while True:
                loans.check()
        assert not began.is_set(), "the device is still lent"
    assert began.wait(DEADLINE_S)
    with pytest.raises(DeviceWanted):
        loans.check()
    ended.set()
    thread.join(DEADLINE_S)
    loans.check()


def test_it_is_quiet_once_the_last_job_is_some_time_ago() -> None:
    loans, quiet = DeviceLoans(), Event()

    def waiting() -> None:
        assert loans.wait_until_quiet(SOON_S)
        quiet.set()

    thread = Thread(target=waiting)
    with loans.job():
        thread.start()
        assert not quiet.wait(3 * SOON_S)
    assert quiet.wait(DEADLINE_S)
    thread.join(DEADLINE_S)


def test_a_process_that_ends_lends_nothing() -> None:
    loans = DeviceLoans()
    thread = Thread(target=loans.close)
    with loans.spare():
        thread.start()
        with pytest.raises(DeviceWanted):
            while True:
                loans.check()
        assert thread.is_alive(), "it waits until the device is given back"
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert not loans.wait_until_quiet(SOON_S)


def test_a_job_does_not_wait_for_ever_for_a_kernel_that_hangs() -> None:
    """The process is to end: the device does not come back by itself."""
    given_up = Event()
    loans = DeviceLoans(given_up.set, too_long_s=0.01)
    thread = Thread(target=loans.begin_job)
    with loans.spare():
        thread.start()
        assert given_up.wait(DEADLINE_S)
        loans.close()
        assert thread.is_alive()
    thread.join(DEADLINE_S)
    assert not thread.is_alive()


def test_no_process_ends_for_a_device_that_comes_back_in_time() -> None:
    given_up = Event()
    loans = DeviceLoans(given_up.set)
    thread = Thread(target=loans.begin_job)
    with loans.spare():
        thread.start()
    thread.join(DEADLINE_S)
    assert not thread.is_alive() and not given_up.is_set()


def test_jobs_that_each_wait_for_a_short_time_wait_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each, its own time limit ends the wait before the process would be given up."""
    now, given_up = [100.0], list[float]()
    loans = DeviceLoans(lambda: given_up.append(now[0]), too_long_s=60.0)

    def wait(left_s: float) -> None:
        now[0] += min(left_s, 25.0)
        raise SoftTimeLimitExceeded

    with loans.spare():
        monkeypatch.setattr("time.monotonic", lambda: now[0])
        monkeypatch.setattr(loans._changed, "wait", wait)
        for _ in range(4):
            with pytest.raises(SoftTimeLimitExceeded):
                loans.begin_job()
        monkeypatch.undo()
    assert given_up == [160.0]
    loans.check()
