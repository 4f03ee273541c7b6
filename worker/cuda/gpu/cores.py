"""Who has the device's cores: one product at a time, for its kernel and check.

A product gives them up once both are on its stream, before they have run. The next one is then put on a stream of its
own behind them, while they run: the device need not wait for Python between two products, and each kernel still has the
device to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cupy

from worker.device.cancellable_lock import CancellableLock, LockRequest, never_cancelled


class CoresRequest(LockRequest):
    """For use by one thread, with the stream that is current there."""

    def __init__(self, cores: DeviceCores, check_cancelled: Callable[[], None]) -> None:
        super().__init__(cores.lock, check_cancelled)
        self._cores = cores

    def acquire(self) -> None:
        """Waits until the cores are idle."""
        super().acquire()
        if self._cores.until is not None:
            self._cores.until.synchronize()
            self._cores.until = None

    def acquire_in_order(self) -> None:
        """Waits for the turn to launch. What is put on the current stream then runs once the cores are idle."""
        if not self._is_ours:
            super().acquire()
            if self._cores.until is not None:
                cupy.cuda.get_current_stream().wait_event(self._cores.until)

    def release_idle(self) -> None:
        """The next one may have them; everything that was put on a stream meanwhile has been waited for."""
        if self._is_ours:
            self._cores.until = None
            super().release()

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Holds the cores, in order, within the context; afterwards they are held or free as before. Calls
        `check_cancelled` even if the cores are free, and raises what that raises."""
        was_ours = self._is_ours
        self._check_cancelled()
        self.acquire_in_order()
        try:
            yield
        finally:
            if not was_ours:
                self.release()

    def release(self) -> None:
        """The next one may have them once the device has done what is on the current stream."""
        if self._is_ours:
            try:
                self._cores.until = cupy.cuda.get_current_stream().record()
            finally:
                super().release()


class DeviceCores(CancellableLock):
    """For any threads. Of the current device."""

    until: Any = None  # the event that the last owner's work ends with

    def request(self, check_cancelled: Callable[[], None] = never_cancelled) -> CoresRequest:
        """Not acquired yet."""
        return CoresRequest(self, check_cancelled)
