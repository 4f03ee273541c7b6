"""Lends the device to deferrable work (compiling, measuring) between jobs; jobs have priority."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, RLock

from jobs.errors import MatmulError

KEPT_TOO_LONG_S = 60.0  # no step of other work takes so long, not even where it compiles


class DeviceWanted(MatmulError):
    """A job needs the device, so deferrable work must return it."""

    type = "device_wanted"


class _Job:
    """A job's context. Holds nothing of its own, so one serves all."""

    def __init__(self, loans: DeviceLoans) -> None:
        self._loans = loans

    def __enter__(self) -> None:
        self._loans.begin_job()

    def __exit__(self, *_: object) -> None:
        self._loans.end_job()


class DeviceLoans:
    """Safe to share between threads. Jobs do not exclude each other; only one piece of other work has the device at a
    time. `give_up` is called where it keeps the device from a job for KEPT_TOO_LONG_S, as when a kernel hangs."""

    def __init__(self, give_up: Callable[[], None] = lambda: None, *, too_long_s: float = KEPT_TOO_LONG_S) -> None:
        self._give_up, self._too_long_s = give_up, too_long_s
        self._lock = RLock()  # entered by itself: a Condition calls Python for it
        self._changed = Condition(self._lock)
        self._jobs = 0
        self._is_lent = False
        self._wanted_at: float | None = None  # since when a job waits for it
        self._is_closed = False
        self._free_since = time.monotonic()
        self._job = _Job(self)

    def job(self) -> _Job:
        """Registers a job at once, then waits until deferrable work has returned the device."""
        return self._job

    def begin_job(self) -> None:
        with self._lock:
            self._jobs += 1
            try:
                if self._is_lent:
                    self._wait_for_device()
            except BaseException:
                self._jobs -= 1
                raise

    def _wait_for_device(self) -> None:
        """Gives up by when the first job asked for it: each may wait for less than that."""
        self._wanted_at = self._wanted_at or time.monotonic()
        while self._is_lent:
            left = self._wanted_at + self._too_long_s - time.monotonic()
            if left > 0:
                self._changed.wait(left)
            else:
                self._wanted_at = time.monotonic()
                self._give_up()

    def end_job(self) -> None:
        with self._lock:
            self._jobs -= 1
            self._free_since = time.monotonic()  # no one is notified: waiters for quiet poll

    @contextmanager
    def spare(self) -> Iterator[None]:
        """Lends the device to work that calls `check` often. Raises DeviceWanted if there is a job."""
        with self._lock:
            self.check()
            self._is_lent = True
        try:
            yield
        finally:
            with self._lock:
                self._is_lent, self._wanted_at = False, None
                self._changed.notify_all()

    def check(self) -> None:
        """Raises DeviceWanted once there is a job, or the process ends."""
        if self._jobs or self._is_closed:
            raise DeviceWanted

    def wait_until_quiet(self, quiet_s: float) -> bool:
        """Waits until there has been no job for `quiet_s`; False once the process ends."""
        with self._lock:
            while not self._is_closed:
                left = None if self._jobs else self._free_since + quiet_s - time.monotonic()
                if left is not None and left <= 0:
                    return True
                self._changed.wait(quiet_s if left is None else left)
            return False

    def close(self) -> None:
        """Stops lending the device, and waits until it has been returned, but not for a kernel that hangs."""
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._is_lent, self._too_long_s)
