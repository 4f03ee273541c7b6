"""Reports a worker that takes no jobs because its device does not answer or computed wrong products."""

from __future__ import annotations

from datetime import UTC, datetime
from threading import Event, Thread
from typing import Literal

import structlog

from jobs.errors import MatmulError
from jobs.fleet.registry import WorkerRegistry
from jobs.fleet.workers import Telemetry
from jobs.redis.client import connect
from jobs.settings import Settings

BEAT_S = 1.0
LAST_BEAT_S = 3.0  # that a beat under way may take: it would put the worker on the register again
# Where it is set, it is the reason why children of this worker take no jobs. The parent sets it; a start of the worker
# clears it: its readiness products decide anew.
QUARANTINED = "MATMUL_QUARANTINED"
WRONG_PRODUCTS = "Products came out wrong twice. Have the device looked at, then start the worker again."

log = structlog.get_logger(__name__)


class OutOfService:
    """Sends heartbeats for the worker, based on its last one; none if it was never ready."""

    def __init__(
        self, settings: Settings, worker_id: str, state: Literal["unavailable", "quarantined"], reason: str
    ) -> None:
        self._settings, self._worker_id, self._changes = settings, worker_id, {"state": state, "reason": reason}
        self._registry = WorkerRegistry(connect(settings), prefix=settings.key_prefix)
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="out of service", daemon=True)

    def start(self) -> None:
        """Sends heartbeats from a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Takes the worker off the register. Raises StoreUnavailable."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(LAST_BEAT_S)
        self._registry.gone(self._worker_id)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._beat()
            except MatmulError as error:
                log.debug("a heartbeat was not heard", reason=error.type)
            self._stopped.wait(min(BEAT_S, self._settings.worker_ttl_s / 5))

    def _beat(self) -> None:
        if (last := self._registry.last(self._worker_id)) is not None:
            state = {**self._changes, "job": None, "telemetry": Telemetry(), "seen_at": datetime.now(UTC)}
            self._registry.beat(last.model_copy(update=state), self._settings.worker_ttl_s)
