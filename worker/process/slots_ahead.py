"""Has slots mapped and registered with the device as soon as they come up in the store's directory, and not when the
first product of a matrix waits for it. After a large product the store has a spare one for the next.
"""

from __future__ import annotations

import time
from threading import Thread

import structlog

from jobs.errors import MatmulError
from jobs.matrices.interface import MatrixStore
from worker.device.runner import Runner

LOOK_EVERY_S = 0.05

log = structlog.get_logger(__name__)


class SlotsAhead:
    """Runs in its own thread. Slots that it cannot prepare are prepared when they are needed."""

    def __init__(self, store: MatrixStore, runner: Runner) -> None:
        self._store, self._runner = store, runner

    def start(self) -> None:
        Thread(target=self._run, name="slots ahead", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_EVERY_S)
            try:
                self.look()
            except (MatmulError, OSError) as error:
                log.debug("slots could not be prepared", reason=str(error))

    def look(self) -> None:
        """Raises StoreFull, StoreUnavailable, OSError."""
        for memory in self._store.new_memories():
            self._runner.expect(memory)
